"""Steps of a generated workflow, run as GitHub runs them."""

import re
import textwrap
from pathlib import Path

from command import Result, run


def job(workflow: str, name: str) -> str:
    """The text of a job."""
    begin = workflow.index(f"\n  {name}:\n") + 1
    end = re.search(r"\n  [\w-]+:\n", workflow[begin + 3 :])
    return workflow[begin : begin + 3 + end.start()] if end else workflow[begin:]


def run_step(workflow: str, place: tuple[str, str], environment: dict[str, str], cwd: Path, expect: int = 0) -> Result:
    """Runs the shell of a step, which `place` names by job and title; what `env` of the step has is
    given."""
    name, title = place
    text = job(workflow, name)
    step = text[text.index(f"- name: {title}\n") :].split("\n      - ")[0]
    script = textwrap.dedent(step.split("run: |\n")[1])
    return run(
        *"bash --noprofile --norc -eo pipefail -c".split(), script, cwd=cwd, environment=environment, expect=expect
    )
