"""The JSON schemas: a validator that is not ours accepts real files and results with them, and
refuses what rocwheel refuses. `CheckedRocwheel` holds all results of the tests against theirs."""

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
from schemas import RESULTS, result_schema
from test_choose import Case, case, made  # noqa: F401

from command import REPOSITORY, Rocwheel
from doctor_trees import diagnose, make_healthy_machine
from small_index import write_wheel

SCHEMAS = {name: json.loads((REPOSITORY / f"docs/schemas/{name}.json").read_text()) for name in ("rocwheel", "recipe")}
RECIPES = [*REPOSITORY.glob("recipes/*.toml"), *REPOSITORY.glob("examples/*/recipes/*.toml")]


def validator(name: str) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    return jsonschema.Draft202012Validator(SCHEMAS[name])


def faults(name: str, text: str) -> list[str]:
    return [error.message for error in validator(name).iter_errors(tomllib.loads(text))]


def test_recipes_are_valid(rocwheel: Rocwheel, tmp_path: Path) -> None:
    rocwheel.run("recipe", "new", "aiter", "--output", tmp_path)
    assert len(RECIPES) > 7
    for path in [*RECIPES, tmp_path / "aiter.toml"]:
        assert faults("recipe", path.read_text()) == [], path


@pytest.mark.parametrize(
    ("wrong", "instead", "words"),
    [
        ('summary = "Something"', 'sumary = "Something"', "'sumary' was unexpected"),
        ("schema = 1", "schema = 2", "1 was expected"),
        ('platforms = ["linux"]', 'platforms = ["linx"]', "'linx' is not one of"),
        ('name = "wheel"', "", "'name' is a required property"),
        ('run = ["true"]', 'run = "true"', "'true' is not of type 'array'"),
    ],
)
def test_mistakes_in_recipes_are_found_by_both(
    rocwheel: Rocwheel, tmp_path: Path, wrong: str, instead: str, words: str
) -> None:
    recipe = """schema = 1
name = "small"
summary = "Something"
distribution = "small"
source = "small"
platforms = ["linux"]
backends = ["rocm"]
[[version]]
text = "1.0"
[[step]]
name = "wheel"
run = ["true"]
[output]
wheel = "dist/*.whl"
"""
    assert faults("recipe", recipe) == []
    path = tmp_path / "small.toml"
    path.write_text(recipe.replace(wrong, instead))
    said = faults("recipe", path.read_text())
    assert any(words in message for message in said), said
    assert "small.toml" in rocwheel.run("recipe", "check", path, expect=1).stderr


def test_the_files_of_the_documentation_are_valid(rocwheel: Rocwheel, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/configuration.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 1
    for block in blocks:
        tables = tomllib.loads(block)
        own = tables.get("tool", {}).get("rocwheel", tables)
        assert [error.message for error in validator("rocwheel").iter_errors(own)] == []
        (tmp_path / ("pyproject.toml" if "tool" in tables else "rocwheel.toml")).write_text(block)
        rocwheel.run("config", "show", cwd=tmp_path)
    assert faults("rocwheel", "[package]\nplatform_tag = 'x'\n") != []
    assert faults("rocwheel", "color = 'purple'\n") != []
    # A key that is an option of one command and the name of another below it is its table.
    assert faults("rocwheel", "[build.plan]\nkeep = true\n") == []
    assert faults("rocwheel", "[build]\nplan = 'x'\n") != []


def test_results_are_valid_and_changed_ones_are_not(rocwheel: Rocwheel, case: Case, tmp_path: Path) -> None:  # noqa: F811
    wheel = write_wheel(tmp_path, "demo", "1.0")
    (tmp_path / "report.xml").write_text('<testsuite name="a"><testcase classname="b" name="c" time="1"/></testsuite>')
    case.make(made.a_card)
    documents = {
        "audit": rocwheel.json("audit", wheel),
        "choose": json.loads(case.choose("torch --gpu gfx1103", "--json").stdout),
        "doctor": diagnose(rocwheel, make_healthy_machine(tmp_path / "machine")),
        "kernels": rocwheel.json("kernels", wheel),
        "test-report": rocwheel.json("test", "report", tmp_path / "report.xml"),
    }
    assert documents.keys() == RESULTS.keys()
    for name, document in documents.items():
        validator = jsonschema.Draft202012Validator(result_schema(name))
        assert validator.is_valid(document), name
        for key in document:
            less = {one: value for one, value in document.items() if one != key}
            assert not validator.is_valid(less), (name, key)
            assert not validator.is_valid({**document, key: -1.5}), (name, key)
        assert not validator.is_valid({**document, "other": 1}), name
