# Everything here works on a fresh Debian machine that has Rust and Python; scripts/setup installs
# the rest.
.PHONY: demo setup lint fuzz test test-real test-windows dist dist-windows bench docs clean

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

bench: bench-package

# As `make bench-index OPTIONS="--files 3000"`; the names are the files of bench/.
bench-%: setup
	scripts/bench $* $(OPTIONS)

dist:
	scripts/dist

dist-windows:
	scripts/dist-windows

docs:
	scripts/site

clean:
	rm -rf .demo .venv dist target
