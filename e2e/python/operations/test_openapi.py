"""The OpenAPI document, by another validator, and the responses of a running Weir, by its schemas."""

import json
import unittest

import jsonschema
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from started import Faktory, ShopApp, get, publish, weir

# What a request needs beside its path.
QUERIES = {
    "/v1/jobs/list": "place=queue:default",
    "/v1/jobs/count": "place=queue:default",
    "/v1/jobs/xray": "place=queue:default",
    "/v1/jobs/type": "name=Order",
    "/v1/jobs/export": "place=queue:default",
    "/v1/realtime/channels": "app=1",
    "/v1/realtime/channel": "app=1&name=orders",
    "/v1/realtime/history": "app=1&channel=orders",
    "/v1/realtime/users": "app=1&channel=presence-orders",
    "/v1/gems/gem": "name=none",
}
# The audit log is for admins.
TOKEN = "correct-horse-battery-staple"
AS_ADMIN = {"Authorization": f"Bearer {TOKEN}"}
# Streams that do not end.
ENDLESS = {"/v1/realtime/tail"}
PARAMETERS = {"{jid}": "order-00001", "{bid}": "b-none", "{id}": "1"}
# GET requests that respond with an error here, because what they ask for does not exist.
ABSENT = {
    "/v1/doctor",
    "/v1/jobs/batches/{bid}",
    "/v1/jobs/tasks/{id}",
    "/v1/realtime/users",
    "/v1/gems/gem",
    "/v1/gems/mirror",
    "/v1/gems/dependents",
    "/v1/gems/latest",
}


class OpenApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        app = ShopApp()
        cls.addClassCleanup(app.close)
        settings = (
            f'[front]\nlisten = "127.0.0.1:0"\n[[front.apps]]\nname = "shop"\nupstreams = ["{app.address}"]\n'
            '[gems]\nlisten = "127.0.0.1:0"\n[[jobs.cron]]\nname = "nightly"\nschedule = "0 3 * * *"\n'
            'job = { jobtype = "Night", args = [] }\n'
        )
        cls.started = cls.enterClassContext(weir(settings, {"WEIR_CONSOLE_TOKEN": TOKEN}))
        app.addresses = cls.started
        cls.console = cls.started["console"]
        cls.document = json.loads(get(cls.console, "/v1/openapi.json")[2])
        client = Faktory(cls.started["jobs"], wid="worker-1")
        cls.addClassCleanup(client.close)
        for number in range(3):
            client.run("PUSH", {"jid": f"order-0000{number}", "jobtype": "Order", "args": [number]})
        client.run("FETCH", "default")
        publish(cls.started["front"], "orders", {})

    def schema_of(self, content):
        registry = Registry().with_resource("urn:weir", Resource(contents=self.document, specification=DRAFT202012))
        # References are within the document.
        schema = json.loads(json.dumps(content["schema"]).replace('"#/', '"urn:weir#/'))
        return jsonschema.Draft202012Validator(schema, registry=registry)

    def check(self, schemas, status, headers, body):
        """Compares a response with what the document says of it."""
        described = schemas.get(str(status)) or schemas.get("default")
        self.assertIsNotNone(described, f"status {status} is not described: {body[:200]}")
        if "$ref" in described:
            described = self.document["components"]["responses"][described["$ref"].rsplit("/", 1)[1]]
        media = headers["content-type" if "content-type" in headers else "Content-Type"].split(";")[0]
        content = described["content"]
        self.assertIn(media, {kind: None for kind in content} | ({"application/openmetrics-text": None} if "text/plain" in content else {}))
        if media == "application/json":
            self.schema_of(content[media]).validate(json.loads(body))

    def test_it_is_valid(self):
        OpenAPIV31SpecValidator(self.document).validate()

    def test_every_get_responds_as_it_says(self):
        seen = 0
        for path, methods in self.document["paths"].items():
            if "get" not in methods or path in ENDLESS:
                continue
            target = path
            for name, value in PARAMETERS.items():
                target = target.replace(name, value)
            query = QUERIES.get(path)
            with self.subTest(path):
                status, headers, body = get(self.console, f"{target}?{query}" if query else target, AS_ADMIN)
                self.assertEqual(status != 200, path in ABSENT, f"{status} {body[:300]}")
                self.check(methods["get"]["responses"], status, headers, body)
                seen += 1
        self.assertGreater(seen, 40)

    def test_a_wrong_parameter_is_an_error_as_it_says(self):
        for path in ("/v1/jobs/list", "/v1/realtime/channels"):
            status, headers, body = get(self.console, path)
            self.assertEqual(status, 400)
            self.check(self.document["paths"][path]["get"]["responses"], status, headers, body)

    def test_unknown_members_of_a_schema_would_be_noticed(self):
        body = json.loads(get(self.console, "/v1/jobs/overview")[2])
        del body["processed_total"]
        content = self.document["paths"]["/v1/jobs/overview"]["get"]["responses"]["200"]["content"]
        with self.assertRaises(jsonschema.ValidationError):
            self.schema_of(content["application/json"]).validate(body)


if __name__ == "__main__":
    unittest.main()
