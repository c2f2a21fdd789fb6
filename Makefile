# The commands of this repository. Cargo does the work; this file names it.

CARGO ?= cargo

.PHONY: run test deb compare soak ci tidy clean

# Builds the release and serves ./varve-data: NBD on ./varve-data/nbd.sock, S3 on 127.0.0.1:9000.
run:
	$(CARGO) run --release --bin varve -- serve

# Everything CI checks: format, lints, habits, unit and whole-process tests. Installs Debian packages that the tests need.
test:
	$(CARGO) xtask test

# A Debian package of the release under target/debian. Needs dpkg-deb and binutils.
deb:
	$(CARGO) build --release --bin varve
	packaging/build-deb target/release/varve target/debian

# The part of `test` that needs no daemon and no packages.
ci:
	$(CARGO) xtask ci

tidy:
	$(CARGO) xtask tidy

# Varve beside other block and object storage, alternating, as one page and as JSON under bench/results. About an hour; COMPARE=--quick: minutes.
compare:
	bench/compare --install $(COMPARE)

# Hours: a million simulated power cuts, an hour of takeovers, then the long forms of the whole-process tests.
soak:
	$(CARGO) xtask sim --seeds 1000000
	TAKEOVER_SEEDS=0..20000 $(CARGO) test -p varve-media-rados --test shards_are_taken_over
	SOAK=1 tests/run --install

clean:
	$(CARGO) clean
