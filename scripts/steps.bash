# The steps of a run of tests: what failed, how long each took, and what the tests counted. Sourced,
# never run. `kind` names the run in the summary.
# shellcheck shell=bash

# What failed, and how long each step took, in the order in which they ran.
failed=()
times=()
scratch=$(mktemp -d)
log=$scratch/log
touch "$log"

# Runs a command that prints counts: on the terminal, and for the summary.
counted() { "$@" 2>&1 | tee -a "$log"; }

# Runs a command, and remembers its name when it fails. What follows runs all the same, unless
# somebody stops it.
try() {
    local name=$1 code=0 begin=$SECONDS
    shift
    "$@" || code=$?
    times+=("$name $((SECONDS - begin)) s")
    [ "$code" -ne 130 ] || exit "$code"
    [ "$code" -eq 0 ] || failed+=("$name")
    return 0
}

has_failed() { [[ " ${failed[*]} " == *" $1 "* ]]; }

# The last line of every run, for people and for CI: what ran, or what failed.
summarize() {
    local code=$1
    printf '\nsteps: '
    printf '%s\n' "${times[@]}" | paste --serial --delimiters=, | sed 's/,/, /g'
    awk -v kind="${kind:?}" -v code="$code" -v seconds="$SECONDS" '
        /^test result: / { for (at = 1; at < NF; at++) { if ($(at + 1) == "passed;") rust += $at; if ($(at + 1) == "ignored;") ignored += $at } }
        /^[= ]*[0-9].* in [0-9.]+s/ { for (at = 1; at < NF; at++) { if ($(at + 1) ~ /^passed/) python += $at; if ($(at + 1) ~ /^skipped/) skipped += $at } }
        END { if (kind == "lint") printf "summary: lint %s, %d s\n", code == 0 ? "passed" : "FAILED", seconds
            else printf "summary: %s %s, %d Rust tests and %d Python tests passed, %d ignored, %d skipped, %d s\n",
            kind, code == 0 ? "passed" : "FAILED", rust, python, ignored, skipped, seconds }' "$log"
    [ ${#failed[@]} -eq 0 ] || echo "failed: ${failed[*]}"
    rm -rf "$scratch"
}
trap 'summarize $?' EXIT
# Without these, a run that somebody ends has passed: the last command before the signal had.
trap 'exit 129' HUP
trap 'exit 143' TERM
