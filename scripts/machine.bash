# What the scripts know about this machine; sourced, never run.
# shellcheck shell=bash

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${ROCWHEEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rocwheel}
export repository cache

# Of Debian experimental a benchmark takes these and what they need: all of it has two HIP runtimes.
# shellcheck disable=SC2034
todays_rocm=(hipcc libamdhip64-dev libhipcub-dev libhip{blas,blas-common,blaslt,fft,rand,solver,sparse,sparselt}-dev
    libmiopen-dev librccl-dev libroc{alution,blas,fft,prim,rand,solver,sparse,thrust}-dev)

step() { printf '\n== %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs a command as root: as it is where we are root, through sudo elsewhere.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        command -v sudo >/dev/null || fail "needs root and there is no sudo: $*"
        sudo "$@"
    fi
}

# The code name of the machine's own Debian release, for example bookworm.
machine_suite() {
    local suite
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    [ -n "$suite" ] || fail "/etc/os-release names no VERSION_CODENAME: is this a Debian machine?"
    printf '%s\n' "$suite"
}

# The Debian mirror that this machine's own apt is set up with.
debian_mirror() {
    local mirror
    # No early exit in awk: apt would die of a broken pipe.
    # shellcheck disable=SC2016  # the dollars are apt's
    mirror=$(apt-get indextargets --format '$(LABEL) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 == "main" && !uri { uri = $3 } END { print uri }')
    [ -n "$mirror" ] || mirror=$(sed -n \
        's/^URIs: *//p; s/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\/debian\/\{0,1\}\) .*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
        awk '/\/debian\/?$/ && !uri { uri = $1 } END { print uri }')
    [ -n "$mirror" ] || fail "this machine's apt sources name no Debian mirror"
    printf '%s\n' "$mirror"
}

# Installs Debian packages. Package lists can be missing or name files that the mirror has replaced,
# so a failure is tried again with fresh ones.
install_packages() {
    local install=(env DEBIAN_FRONTEND=noninteractive
        apt-get -q -y -o Acquire::Retries=3 install --no-install-recommends "$@")
    as_root "${install[@]}" >&2 || {
        as_root apt-get -q -o Acquire::Retries=3 update >&2
        as_root "${install[@]}" >&2
    }
}

# Keeps a second run of the same script from making the same thing in the cache; held until the
# script ends.
lock_cache() {
    mkdir -p "$cache"
    exec 9>"$cache/$1.lock"
    flock 9
}
