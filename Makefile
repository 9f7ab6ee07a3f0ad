# The two commands of the README, and their long forms. Cargo does all the building.
.PHONY: demo test test-all build

demo:            ## build the crawler and crawl a simulated web for a minute
	cargo build --release --package lycosa
	./target/release/lycosa demo

test:            ## format, lints, tests, tidy: exactly what CI runs
	cargo xtask ci

test-all:        ## the same with the RocksDB engine (13 minutes of C++ the first time)
	cargo xtask ci --rocksdb

build:
	cargo build --release --package lycosa
