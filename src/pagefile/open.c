/* Which engine a page file is opened with.
 *
 * auto, by measurement (2 processors, ext4 on a virtual NVMe; `kvshelf bench pages` shows it anew):
 *   - through the page cache: posix. Its threads share the copying and the checksums, where a ring
 *     copies in the calling thread: warm reads of 2 MiB with checksums run at 1.7 of a plain loop
 *     against 0.8.
 *   - direct, on a local file system: uring. One thread keeps the device as busy as posix does with
 *     many, at a fraction of the processor time.
 *   - on a network file system: posix, whose threads may be left waiting when a call's time is up.
 */
#include "base/status.h"
#include "pagefile/engines.h"

enum kvs_status engine_open(engine_take_fn take, const struct pagefile_options *options,
                            struct pagefile **ret_file, struct kvs_error *error)
{
    struct page_file file;
    enum kvs_status status = page_file_open(&file, options, error);
    if (status != KVS_OK) {
        return status;
    }
    status = take(&file, options, ret_file, error);
    if (status != KVS_OK) {
        page_file_done(&file);
    }
    return status;
}

/* The ring where it works, else posix, said once. */
static enum kvs_status take_uring_or_posix(struct page_file *file,
                                           const struct pagefile_options *options,
                                           struct pagefile **ret_file, struct kvs_error *error)
{
    struct kvs_error reason;
    enum kvs_status status = uring_take(file, options, ret_file, &reason);
    if (status != KVS_ERR_IO_ENGINE) {
        if (status != KVS_OK && error) {
            *error = reason;
        }
        return status;
    }
    log_line(&options->log, KVS_LOG_WARNING, "%s. %s uses the engine posix instead.",
             reason.message, file->path);
    return posix_take(file, options, ret_file, error);
}

static enum kvs_status take_best(struct page_file *file, const struct pagefile_options *options,
                                 struct pagefile **ret_file, struct kvs_error *error)
{
    engine_take_fn take =
        file->direct && !file->filesystem.network ? take_uring_or_posix : posix_take;
    return take(file, options, ret_file, error);
}

enum kvs_status pagefile_open(enum kvs_io_engine engine, const struct pagefile_options *options,
                              struct pagefile **ret_file, struct kvs_error *error)
{
    switch (engine) {
    case KVS_IO_POSIX:
        return engine_open(posix_take, options, ret_file, error);
    case KVS_IO_URING:
        return engine_open(take_uring_or_posix, options, ret_file, error);
    case KVS_IO_USRBIO:
        return error_set(error, KVS_ERR_IO_ENGINE, "usrbio", "this build does not have it");
    default:
        return engine_open(take_best, options, ret_file, error);
    }
}
