"""Lets Windows find the ROCm libraries inside this package, before the first module that needs them is imported."""

import os

# As long as a handle lives, its directory is searched.
_HANDLES = []


def initialize():
    """Adds the directories of the libraries; does nothing on other systems, and nothing the second time."""
    if _HANDLES or not hasattr(os, "add_dll_directory"):
        return
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), *"@FOLDER@".split("/"))
    for name in ("bin", "lib"):
        directory = os.path.join(root, name)
        if os.path.isdir(directory):
            _HANDLES.append(os.add_dll_directory(directory))
