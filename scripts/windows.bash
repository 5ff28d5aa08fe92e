# A root of Debian sid that builds and runs programs for Windows: Rust with the sources of its
# library, MinGW's compiler and linker, and Wine. Sourced, never run; needs root.
# shellcheck shell=bash
# shellcheck source=scripts/machine.bash
. "$(dirname "${BASH_SOURCE[0]}")/machine.bash"

# The root, the build and Wine's own files, 8 GB.
place=$cache/windows
root=$place/root
target=x86_64-pc-windows-gnu
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export place root target cargo_home

make_root() {
    local tarball
    tarball=$("$repository/scripts/make-root" sid \
        cargo rustc rust-src gcc-mingw-w64-x86-64-win32 wine wine64 ca-certificates)
    [ "$(cat "$place/root.name" 2>/dev/null)" != "$tarball" ] || return 0
    step "unpacking the root"
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    zstd -qdc "$tarball" | tar --extract --numeric-owner --directory "$root"
    printf '%s\n' "$tarball" >"$place/root.name"
}

# Folders of this machine, at the same paths in the root. The mounts end with the script.
mount_folders() {
    local folder device
    mkdir -p "$cargo_home/registry"
    for folder in "$repository" "$place" "${TMPDIR:-/tmp}" "$cargo_home" /etc/ssl/certs; do
        mkdir -p "$root$folder"
        mount --rbind "$folder" "$root$folder"
    done
    mount -t proc proc "$root/proc"
    for device in null zero urandom random full tty; do
        [ -e "$root/dev/$device" ] || touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    done
    mkdir -p "$root/dev/shm"
    mount -t tmpfs tmpfs "$root/dev/shm"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
}

# Runs the script that calls this again, with the same arguments, where the root is mounted. All
# processes and mounts end with it.
enter_root() {
    [ "${ROCWHEEL_MOUNTED:-}" != yes ] || { mount_folders; return 0; }
    [ "$(id -u)" = 0 ] || exec sudo --preserve-env "$0" "$@"
    mkdir -p "$place"
    lock_cache windows
    make_root
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
