"""Write kubernetes.json again: the fields of the API's objects that manifests
use, with type and whether they are required, as Kubernetes' own Python client
(PyPI: kubernetes, 37 or later, and pyyaml) knows them.

    python3 tests/deploy/make_schema.py

Objects that no manifest has an instance of are not in it."""

import glob
import json
import os
import re

import yaml
from kubernetes.client import models

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFESTS = os.path.join(HERE, "../../deploy/kubernetes/*.yaml")
schema = {}


def add(name, value):
    """The object's fields, and those of what is in it."""
    model = getattr(models, name)
    required = [field.serialization_alias or field_name for field_name, field
                in model.model_fields.items() if field.is_required()]
    names = model.attribute_map
    fields = {names[field]: [text, names[field] in required]
              for field, text in model.openapi_types.items()}
    schema[name] = fields
    for key, inner in value.items():
        follow(fields[key][0], inner)


def follow(text, value):
    of = re.match(r"(?:List|Dict)\[(?:str, )?(.*)\]$", text)
    if of and isinstance(value, dict):
        value = list(value.values())
    if of:
        for item in value:
            follow(of.group(1), item)
    elif hasattr(models, text) and isinstance(value, dict):
        add(text, value)


roots = {}
for path in sorted(glob.glob(MANIFESTS)):
    with open(path, encoding="utf-8") as file:
        for manifest in yaml.safe_load_all(file):
            name = manifest["apiVersion"].split("/")[-1].capitalize() + \
                manifest["kind"]
            roots[f"{manifest['apiVersion']} {manifest['kind']}"] = name
            add(name, manifest)
lines = [f"{json.dumps(name)}: {json.dumps(fields, sort_keys=True)}"
         for name, fields in sorted(schema.items())]
with open(os.path.join(HERE, "kubernetes.json"), "w",
          encoding="ascii") as file:
    file.write(f'{{"roots": {json.dumps(roots, sort_keys=True)},\n"objects": '
               "{\n" + ",\n".join(lines) + "}}\n")
