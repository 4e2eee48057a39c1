"""Traces over the whole product, read by OpenTelemetry's own decoder."""

import secrets
import unittest

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from started import (
    Collector,
    Faktory,
    ShopApp,
    attributes,
    eventually,
    get,
    metric,
    publish,
    weir,
)


def settings(app, collector, more="sample = 1.0\n", limits=""):
    return (
        f'[front]\nlisten = "127.0.0.1:0"\n[[front.apps]]\nname = "shop"\nupstreams = ["{app.address}"]\n'
        f'[traces]\nendpoint = "http://{collector.address}"\n{more}'
        f'[traces.limits]\n{limits}[traces.limits.advanced]\nbatch_interval = "20ms"\nattempts_max = 2\n'
    )


class Traces(unittest.TestCase):
    def start(self, **options):
        collector, app = Collector(), ShopApp()
        self.addCleanup(collector.close)
        self.addCleanup(app.close)
        started = self.enterContext(weir(settings(app, collector, **options)))
        app.addresses = started
        return started, app, collector

    def test_a_request_its_job_and_its_event_are_one_trace(self):
        started, app, collector = self.start()
        status, _, own = get(started["front"], "/order?card=4711")
        self.assertEqual(status, 200)
        worker = Faktory(started["jobs"], wid="worker-1")
        self.addCleanup(worker.close)
        job = worker.run("FETCH", "default")
        self.assertEqual(job["custom"]["traceparent"], own.decode(), "the job is as it was pushed")
        worker.run("ACK", {"jid": job["jid"]})
        names = ("GET shop", "push default", "process default", "publish", "fan-out")
        request, push, run, event, fanout = collector.until(*names)

        self.assertEqual({span.trace_id for span in (request, push, run, event, fanout)}, {request.trace_id})
        app_span = bytes.fromhex(own.decode()[36:52])
        self.assertEqual(request.parent_span_id, b"")
        self.assertEqual(own.decode()[3:35], request.trace_id.hex())
        self.assertEqual({span.parent_span_id for span in (push, run, event)}, {app_span})
        self.assertEqual(fanout.parent_span_id, event.span_id)
        self.assertEqual(app.seen[0]["traceparent"], f"00-{request.trace_id.hex()}-{request.span_id.hex()}-01")

        kinds = [span.kind for span in (request, push, run, event, fanout)]
        expected = ("SERVER", "PRODUCER", "CONSUMER", "SERVER", "INTERNAL")
        self.assertEqual(kinds, [getattr(Span, f"SPAN_KIND_{kind}") for kind in expected])
        for span in (request, push, run, event, fanout):
            self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano)
            self.assertEqual(span.status.code, 0)
        of_request = attributes(request)
        self.assertEqual(of_request["weir.app"], "shop")
        self.assertEqual(of_request["url.path"], "/order", "without the query")
        self.assertEqual(of_request["http.response.status_code"], 200)
        self.assertEqual(of_request["weir.worker"], app.address)
        self.assertGreaterEqual(of_request["weir.queue_seconds"], 0)
        of_run = attributes(run)
        self.assertEqual(of_run["messaging.destination.name"], "default")
        self.assertEqual(of_run["messaging.message.id"], "order-00001")
        self.assertEqual(of_run["weir.jobtype"], "Order")
        self.assertGreaterEqual(of_run["weir.wait_seconds"], 0)
        self.assertEqual(attributes(fanout)["weir.events"], 1)

        path, headers, message = collector.requests[0]
        self.assertEqual((path, headers["Content-Type"]), ("/v1/traces", "application/x-protobuf"))
        resource = {pair.key: pair.value.string_value for pair in message.resource_spans[0].resource.attributes}
        self.assertEqual(resource["service.name"], "weir")
        console = started["console"]
        eventually(lambda: metric(console, "weir_traces_spans_exported_total") == 5, "5 spans are counted")

    def test_a_failed_run_is_an_error_without_its_message(self):
        started, _, collector = self.start()
        client = Faktory(started["jobs"], wid="worker-1")
        self.addCleanup(client.close)
        parent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        # Where Sidekiq's instrumentation puts it.
        client.run("PUSH", {"jid": "failing-01", "jobtype": "Fail", "args": [], "traceparent": parent})
        client.run("FETCH", "default")
        client.run("FAIL", {"jid": "failing-01", "errtype": "KeyError", "message": "card 4711"})
        (run,) = collector.until("process default")
        self.assertEqual(run.trace_id.hex(), parent[3:35])
        self.assertEqual(run.status.code, 2)
        self.assertEqual(attributes(run)["error.type"], "KeyError")
        self.assertNotIn("4711", str(collector.spans()))

    def test_strangers_do_not_decide_and_proxies_do(self):
        parent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}"
        started, app, collector = self.start(more="sample = 0\n")
        get(started["front"], "/", {"traceparent": f"{parent}-01", "tracestate": "a=b"})
        self.assertEqual(app.seen[-1]["traceparent"], f"{parent}-01", "forwarded as it came")
        self.assertEqual(app.seen[-1]["tracestate"], "a=b")
        publish(started["front"], "orders", {"traceparent": f"{parent}-01"})
        collector.until("publish")
        self.assertNotIn("GET shop", collector.spans())

    def test_followed_clients_decide(self):
        parent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}"
        started, app, collector = self.start(more="sample = 1\nfollow_clients = true\n")
        get(started["front"], "/no", {"traceparent": f"{parent}-00"})
        self.assertEqual(app.seen[-1]["traceparent"], f"{parent}-00")
        get(started["front"], "/yes", {"traceparent": f"{parent}-01", "tracestate": "a=b"})
        (request,) = collector.until("GET shop")
        self.assertEqual(attributes(request)["url.path"], "/yes")
        self.assertEqual(request.parent_span_id.hex(), parent[36:])
        self.assertEqual(app.seen[-1]["tracestate"], "a=b", "it is of the same trace")
        for malformed in ("", "00", f"{parent}-0", f"{parent}-01-", f"ff{parent[2:]}-01", f"00-{'0' * 32}-{'1' * 16}-01"):
            get(started["front"], "/malformed", {"traceparent": malformed, "tracestate": "a=b"})
            sent = app.seen[-1]["traceparent"]
            self.assertRegex(sent, r"^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")
            self.assertNotEqual(sent[3:35], parent[3:35], "a malformed one begins another trace")
            self.assertNotIn("tracestate", app.seen[-1])

    def test_a_collector_that_is_away_slow_or_broken_delays_nothing(self):
        started, _, collector = self.start(limits="queue_max = 10\nbatch_max = 5\ntimeout = \"1s\"\n")
        console = started["console"]
        dropped = 'weir_traces_spans_dropped_total{reason="%s"}'
        collector.status = 400
        get(started["front"], "/")
        eventually(lambda: metric(console, dropped % "rejected") == 1, "a rejected span is counted")
        collector.status = 503
        get(started["front"], "/")
        eventually(lambda: metric(console, dropped % "unavailable") == 1, "the span is dropped after two attempts")
        collector.status, collector.delay = 200, 3
        for _ in range(100):
            self.assertEqual(get(started["front"], "/")[0], 200)
        eventually(lambda: (metric(console, dropped % "queue_max") or 0) >= 70, "what the queue has no room for is counted")
        collector.delay = 0
        before = metric(console, "weir_traces_spans_exported_total")
        eventually(lambda: get(started["front"], "/") and metric(console, "weir_traces_spans_exported_total") > before, "it works again")
        said = [line for line in started["log"] if "traces cannot be exported" in line]
        self.assertLessEqual(len(said), 3, "one line for each outage")

    def test_without_an_endpoint_nothing_is_traced(self):
        app = ShopApp()
        self.addCleanup(app.close)
        front = f'[front]\nlisten = "127.0.0.1:0"\n[[front.apps]]\nname = "shop"\nupstreams = ["{app.address}"]\n'
        started = self.enterContext(weir(front))
        parent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        get(started["front"], "/", {"traceparent": parent})
        self.assertEqual(app.seen[-1]["traceparent"], parent)
        get(started["front"], "/")
        self.assertNotIn("traceparent", app.seen[-1])

    def test_the_rest_is_exported_at_the_end(self):
        collector, app = Collector(), ShopApp()
        self.addCleanup(collector.close)
        self.addCleanup(app.close)
        config = settings(app, collector).replace("20ms", "60s")
        with weir(config) as started:
            get(started["front"], "/")
            self.assertEqual(collector.requests, [])
        self.assertIn("GET shop", collector.spans())


if __name__ == "__main__":
    unittest.main()
