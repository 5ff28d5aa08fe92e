def initialize():
    """ROCm is inside this package: there is nothing to load from other packages."""
