
def initialize():
    import rocm_sdk
    rocm_sdk.initialize_process(
        preload_shortnames=['@SHORTNAMES@'],
        check_version='@VERSION@')
