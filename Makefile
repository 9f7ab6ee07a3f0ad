# The two commands of the README, and their long forms. Cargo does all the building.
.PHONY: demo test test-all build clean

demo:            ## build the crawler and crawl a simulated web for a minute
	cargo run --profile demo --package lycosa -- demo

test:            ## format, lints, tests, tidy: exactly what CI runs
	cargo xtask ci

test-all:        ## the same with the RocksDB engine (13 minutes of C++ the first time)
	cargo xtask ci --rocksdb

build:           ## the binary as it is handed out: target/dist/lycosa
	cargo build --profile dist --package lycosa

clean:           ## our own artefacts; what others wrote stays built
	cargo clean --workspace
