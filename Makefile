# Thin fronts: what is built and how is in CMakeLists.txt and CMakePresets.json, what is done in scripts/.
# `make help` prints the lines that begin with "#   make". Times are those of two cores.
#
#   make build            the release program and library: build/kvshelf, build/libkvshelf.so (a minute)
#   make demo             a request trace served from pages on disk, every byte checked (a minute)
#   make test             the whole test suite (a minute or two)
#   make soak             [SECONDS=600] four processes over a server that dies every few seconds
#   make hammer           [READS=10000000] native and original clients on one page file; installs SGLang and torch (1.2 GB)
#   make bench            measure, beside the alternatives; raw output kept in build/bench/ (half an hour or more)
#   make sim              [SEEDS=1000 FROM=1] play the simulation: faults, kills, power cuts (a minute or two)
#   make network-measure  calls over a wire that is slow, loses packets and is cut, as a table (minutes)
#   make format           put the C sources into the project's format (needs clang-format-14)
#   make install          [PREFIX=/usr/local] [DESTDIR=]
#   make clean            remove build/
#   make help             these lines
#
# build, demo, test, soak, hammer, bench, sim and network-measure first install what is missing with apt-get,
# saying what.
PREFIX ?= /usr/local
SEEDS ?= 1000
FROM ?= 1
SECONDS ?= 600
READS ?= 10000000

# The system's own tools first: version managers put shims of the same names in front of them.
export PATH := /usr/bin:/bin:/usr/sbin:/sbin:$(PATH)

.PHONY: build demo test soak hammer bench sim network-measure format install clean help
.DEFAULT_GOAL := build

build:
	@scripts/build release

demo: build
	@scripts/demo

test: build
	@scripts/run-tests release

soak: build
	@cd build/release && ./soak_test_soak --seconds $(SECONDS) --seed $$(date +%s)

hammer: build
	@scripts/hammer --reads $(READS)

bench:
	@scripts/bench

sim: build
	@build/release/sim --seeds $(SEEDS) --from $(FROM) --jobs "$$(nproc)"

network-measure: build
	@ninja -C build/release network-measure

format:
	@scripts/check-format --fix

install: build
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"
	@# So that programs find the library at once; elsewhere (DESTDIR, not root) that is the installer's.
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" -eq 0 ]; then ldconfig; fi

clean:
	rm -rf build

help:
	@sed -n 's/^#   \(make .*\)/\1/p' Makefile
