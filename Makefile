# Everything here works on a fresh Debian machine that has Rust and Python; scripts/setup installs
# the rest.
.PHONY: demo setup lint fuzz test test-real test-windows dist dist-windows bench bench-split bench-audit bench-build bench-kernels bench-hipify bench-index bench-doctor bench-test-report bench-supervisor bench-promote bench-nightly bench-stream bench-delta bench-scaling docs clean

demo:
	scripts/demo

setup:
	scripts/setup

lint: setup
	scripts/run-tests lint

fuzz: setup
	scripts/run-fuzz 10

test: setup
	scripts/run-tests

test-real: setup
	scripts/run-tests real

test-windows: setup
	scripts/run-tests-windows

bench: setup
	scripts/run-benchmark

bench-split: setup
	scripts/run-benchmark-split

bench-audit: setup
	scripts/run-benchmark-audit

bench-build: setup
	scripts/run-benchmark-build

bench-kernels: setup
	scripts/run-benchmark-kernels

bench-hipify: setup
	scripts/run-benchmark-hipify

bench-index: setup
	scripts/run-benchmark-index

bench-doctor: setup
	scripts/run-benchmark-doctor

bench-test-report: setup
	scripts/run-benchmark-test-report

bench-supervisor: setup
	scripts/run-benchmark-supervisor

bench-promote: setup
	scripts/run-benchmark-promote

bench-nightly: setup
	scripts/run-benchmark-nightly

bench-stream: setup
	scripts/run-benchmark-stream

bench-delta: setup
	scripts/run-benchmark-delta

bench-scaling: setup
	scripts/run-benchmark-scaling

dist:
	scripts/dist

dist-windows:
	scripts/dist-windows

docs:
	scripts/site

clean:
	rm -rf .demo .venv dist target
