#!python
"""Starts the program that was packaged under this name; it lies in site-packages, where its libraries are."""

import os
import sys
import sysconfig

PROGRAM = "@PROGRAM@"

if __name__ == "__main__":
    program = os.path.join(sysconfig.get_path("platlib"), *PROGRAM.split("/"))
    os.execv(program, [program, *sys.argv[1:]])
