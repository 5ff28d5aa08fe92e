#!/usr/bin/env bash
# Inside a root without ROCm: install from a directory, test, load, uninstall, and see that nothing
# is left.
#
#   in_root.bash INSTALLER DIST HERE [REQUIREMENT]...
#
# INSTALLER is pip or the path of uv; HERE holds loading.py.
set -euo pipefail
installer=$1 dist=$2 here=$3
shift 3
venv=/opt/rocm-venv
source=(--no-index --find-links "$dist" 'rocm[libraries,devel]' "$@")

if ldconfig -p | grep -E 'hsa-runtime|amdhip|hsakmt' >&2; then
    echo "error: this root has ROCm" >&2
    exit 1
fi

# .lock is uv's own.
held() { find "$venv" ! -type d ! -path "$venv/.lock" | sort; }

python3 --version
if [ "$installer" = pip ]; then
    python3 -m venv "$venv"
    held >/tmp/before
    "$venv/bin/python" -m pip install --quiet --no-cache-dir "${source[@]}"
    "$venv/bin/python" -m pip check
else
    "$installer" venv --quiet --no-cache --python /usr/bin/python3 "$venv"
    held >/tmp/before
    "$installer" pip install --quiet --no-cache --python "$venv/bin/python" "${source[@]}"
    "$installer" pip check --python "$venv/bin/python"
fi

echo "== rocm-sdk test"
"$venv/bin/rocm-sdk" test
echo "== loading"
"$venv/bin/python" "$here/loading.py"
echo "== uninstalling"
packages=$("$venv/bin/python" -c '
from importlib.metadata import distributions
print(*sorted(one.name for one in distributions() if one.name.startswith("rocm")))')
if [ "$installer" = pip ]; then
    # shellcheck disable=SC2086  # one word a package
    "$venv/bin/python" -m pip uninstall --quiet --yes $packages
else
    # shellcheck disable=SC2086
    "$installer" pip uninstall --quiet --python "$venv/bin/python" $packages
fi
held >/tmp/after
diff /tmp/before /tmp/after
echo "no file is left"
