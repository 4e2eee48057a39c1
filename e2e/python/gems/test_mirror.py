"""A Weir that mirrors another, as Bundler sees it."""

import unittest

from index import Client, build, build_new
from mirrored import is_same, pair, state, tell
from storm import storm


class Mirror(unittest.TestCase):
    def start(self, policy=""):
        return self.enterContext(pair(policy))

    def client(self, index, gems):
        client = Client(index, gems)
        self.addCleanup(client.close)
        return client

    def push(self, index, name, version, dependencies=()):
        told = index.push([build_new(index.folder, name, version, dependencies)])
        self.assertIn(f"Successfully registered gem: {name} ({version})", told)

    def test_a_push_upstream_is_in_the_next_update_below(self):
        upstream, mirror = self.start()
        tell(upstream, mirror)
        files = build(upstream.folder / "built", "sidekiq")
        upstream.push(files)
        self.push(upstream, "shop", "1.0.0", ['"sidekiq"'])
        mirror.until(lambda: is_same(upstream, mirror, "shop"))
        client = self.client(mirror, ['"shop"'])
        client.bundle("install")
        self.assertGreaterEqual(set(client.locked()), {"shop", "sidekiq", "rack"})
        self.push(upstream, "shop", "1.1.0", ['"sidekiq"'])
        mirror.until(lambda: is_same(upstream, mirror, "shop"))
        asked = client.bundle("update", "shop")
        self.assertEqual(asked, {"versions 206": 1, "info 206": 1, "file 200": 1})
        self.assertEqual(client.locked()["shop"], "1.1.0")
        self.assertEqual(client.ruby("require 'shop'"), "shop 1.1.0\n")
        upstream.gem("yank", "shop", "-v", "1.1.0", "--host", upstream.url)
        mirror.until(lambda: is_same(upstream, mirror, "shop"))
        # Another one: what is installed is chosen, yanked or not.
        other = self.client(mirror, ['"shop"'])
        other.bundle("lock")
        self.assertEqual(other.locked()["shop"], "1.0.0")
        self.assertEqual(mirror.get("/gems/shop-1.1.0.gem").status, 404)

    def test_what_was_fetched_is_installed_without_the_upstream(self):
        upstream, mirror = self.start()
        for name in ("kept", "other"):
            self.push(upstream, name, "1.0.0")
        mirror.command("gems", "mirror")
        self.client(mirror, ['"kept"']).bundle("install")
        upstream.hang()
        self.addCleanup(upstream.go_on)
        mirror.kill_service()
        client = self.client(mirror, ['"kept"'])
        client.bundle("install")
        self.assertEqual(client.ruby("require 'kept'"), "kept 1.0.0\n")
        # Its index is here, its file is not, and nobody waits for long to hear that.
        client = self.client(mirror, ['"other"'])
        client.bundle("lock")
        self.assertEqual(client.locked(), {"other": "1.0.0"})
        client.bundle("install", check=False)
        self.assertEqual(client.installed(), set())
        told = mirror.get("/gems/other-1.0.0.gem")
        self.assertEqual(told.status, 503)
        self.assertIn(b"the upstream one does not answer", told.content)
        self.assertEqual(state(mirror)["names"], 2)

    def test_a_private_name_is_ours_whatever_is_published_upstream(self):
        upstream, mirror = self.start("private acme-*\n")
        self.push(mirror, "acme-web", "1.0.0")
        # Nobody thought of a line for this one, but it was pushed here first.
        self.push(mirror, "billing", "1.0.0")
        for name in ("acme-web", "acme-new", "billing"):
            self.push(upstream, name, "99.0.0")
        self.push(upstream, "rack", "3.0.0")
        mirror.command("gems", "mirror", "--everything")
        self.assertTrue(is_same(upstream, mirror, "rack"))

        def assert_private():
            client = self.client(mirror, ['"acme-web"', '"billing"', '"rack"'])
            client.bundle("lock")
            self.assertEqual(client.locked(), {"acme-web": "1.0.0", "billing": "1.0.0", "rack": "3.0.0"})
            for name in ("acme-web", "acme-new", "billing"):
                self.assertEqual(mirror.get(f"/gems/{name}-99.0.0.gem").status, 404, name)
            self.assertEqual(mirror.get("/info/acme-new").status, 404)

        assert_private()
        upstream.hang()
        assert_private()
        mirror.kill_service()
        assert_private()
        upstream.go_on()
        mirror.command("gems", "mirror", "--everything")
        assert_private()
        refused = {it["name"]: it["reason"] for it in state(mirror)["refused_names"]}
        self.assertEqual(refused, {"acme-web": "policy", "acme-new": "policy", "billing": "local"})

    def test_a_storm_of_webhooks_and_kills_lose_nothing(self):
        storm(hooks=300, kills=5)


if __name__ == "__main__":
    unittest.main()
