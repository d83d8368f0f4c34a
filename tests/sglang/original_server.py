"""Run SGLang's own metadata server, as released, on loopback.

usage: original_server.py [--port N] [--no-access-log]
"""
import argparse
import logging

import isolated


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=18000)
    parser.add_argument("--no-access-log", action="store_true", help="without uvicorn's line a request")
    args = parser.parse_args()
    version = isolated.install()

    import uvicorn
    from sglang.srt.mem_cache.storage.hf3fs.mini_3fs_metadata_server import Hf3fsMetadataServer

    logging.info("SGLang %s, torch is %s", version,
                 "a stand-in" if isolated.torch_is_a_stand_in() else "real")
    server = Hf3fsMetadataServer()
    uvicorn.run(server.app, host="127.0.0.1", port=args.port, access_log=not args.no_access_log)


if __name__ == "__main__":
    main()
