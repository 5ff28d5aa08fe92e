"""Pages of the documentation that can be followed: their blocks as one script."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def script(page: str, folder: Path) -> str:
    """The blocks of a page one after the other, as a script of Bash that prints each command.

    Files that the page shows (a block that begins with their name) are written to `folder` at once;
    the page shows them where it speaks of them. Blocks in Python run in the Python of that moment.
    A command with the comment `# exit code N` has to end with that code.
    """
    steps = ["set -eux"]
    blocks = re.findall(r"^```(sh|python|cmake)\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    for language, text in blocks:
        file = re.match(r"# (\S+\.(?:py|txt))\n", text)
        if file:
            (folder / file[1]).parent.mkdir(exist_ok=True)
            (folder / file[1]).write_text(text)
        elif language == "sh":
            text = re.sub(r"^(\S.*?) +# exit code (\d+)$", r"code=0; \1 || code=$?; [ $code = \2 ]", text, flags=re.M)
            steps.append(f"({text})" if "cd /" in text else text)
        else:
            steps.append(f"python - <<'BLOCK'\n{text}\nBLOCK")
    return "\n".join(steps)
