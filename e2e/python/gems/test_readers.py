"""Bundler and RubyGems at an index that takes a key to read."""

import shutil
import tempfile
import unittest
from pathlib import Path

from index import Client, Index, build_new


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.index = Index('read = "key"\n')
        try:
            for name, needs in (("needed", []), ("shop", ['"needed"'])):
                cls.index.push([build_new(cls.index.folder, name, "1.0.0", needs)])
        except BaseException:
            cls.index.close()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.index.close()

    def key(self, scope="index_rubygems"):
        return self.index.command("gems", "key", "create", "reader", "--scope", scope).strip()

    def revoke(self, key):
        """The key that was made last."""
        listed = self.index.command("gems", "key", "list").splitlines()
        self.index.command("gems", "key", "revoke", listed[-1].split()[0])

    def client(self, gems=('"shop"',), url=None):
        client = Client(self.index, gems, url)
        self.addCleanup(client.close)
        return client

    def source(self, credentials, url=None):
        return (url or self.index.url).replace("://", f"://{credentials}@")

    def configure(self, client, credentials):
        """As our answer says it."""
        host = self.index.addresses["gems"].rsplit(":", 1)[0]
        client.bundle("config", "set", "--global", host, credentials)

    def assert_installed(self, client, key):
        asked = client.bundle("install")
        self.assertEqual(asked, {"versions 200": 1, "info 200": 2, "file 200": 2})
        self.assertEqual(client.installed(), {"shop-1.0.0", "needed-1.0.0"})
        self.assertEqual(client.ruby("require 'shop'"), "shop 1.0.0\n")
        self.assertNotIn(key, client.output)

    def assert_nothing_read(self, asked):
        self.assertIn("versions 4xx", asked)
        self.assertTrue(all(it.endswith(" 4xx") for it in asked), asked)

    def assert_denied(self, client, *arguments):
        """With a key that may not Bundler tries its older ways, too: none is open."""
        self.assert_nothing_read(client.bundle(*arguments, check=False))
        self.assertIn("Bad username or password for http://ci@127.0.0.1", client.output)

    def test_bundler_reads_and_installs_with_a_key_as_password(self):
        key = self.key()
        client = self.client()
        self.configure(client, f"ci:{key}")
        self.assert_installed(client, key)
        self.assertNotIn(key, (client.folder / "Gemfile.lock").read_text())
        self.assertEqual(client.bundle("lock", "--update"), {"versions 304": 1})

    def test_a_key_may_stand_in_the_source_however_it_is_written(self):
        key = self.key()
        for credentials in (f"ci:{key}", f"{key}:x-oauth-basic"):
            self.assert_installed(self.client(url=self.source(credentials)), key)
        for credentials in (key, f"{key}:"):
            client = self.client(url=self.source(credentials))
            client.bundle("lock")
            self.assertEqual(set(client.locked()), {"shop", "needed"})

    def test_below_a_path_of_the_front_it_is_the_same(self):
        key = self.key()
        self.assert_installed(self.client(url=self.source(f"ci:{key}", self.index.mounted_url)), key)

    def test_without_a_key_bundler_says_what_to_do(self):
        client = self.client()
        self.assert_nothing_read(client.bundle("install", check=False))
        self.assertIn("Authentication is required for 127.0.0.1", client.output)
        self.assertEqual((client.cached(), client.installed()), ({}, set()))
        told = self.index.get("/versions")
        self.assertEqual((told.status, told.headers["WWW-Authenticate"][:6]), (401, "Basic "))
        self.assertIn(b"bundle config set --global HOST USER:KEY", told.content)

    def test_a_key_that_is_revoked_fails_at_once(self):
        key = self.key()
        client = self.client()
        self.configure(client, f"ci:{key}")
        client.bundle("lock")
        self.revoke(key)
        self.assert_denied(client, "lock", "--update")
        # What is locked is not fetched either.
        self.assert_denied(client, "install")
        self.assertEqual(client.installed(), set())

    def test_a_key_for_pushing_alone_reads_nothing(self):
        client = self.client(url=self.source(f"ci:{self.index.key}"))
        self.assert_denied(client, "lock")
        self.assertFalse((client.folder / "Gemfile.lock").exists())
        told = self.index.get("/versions", {"Authorization": self.index.key})
        self.assertEqual((told.status, b"no scope index_rubygems" in told.content), (403, True))

    def gem(self, *arguments, source, check=True):
        return self.index.gem(*arguments, "--clear-sources", "--source", source, check=check)

    def test_gem_reads_fetches_and_installs_with_a_key(self):
        key = self.key()
        home = Path(tempfile.mkdtemp(dir=self.index.folder))
        self.addCleanup(shutil.rmtree, home)
        install = ["install", "shop", "--install-dir", str(home), "--no-document"]
        for source in (self.index.url, self.source("ci:weir_nobody")):
            told = self.gem(*install, source=source, check=False)
            self.assertIn("Unauthorized 401", told)
            self.assertFalse((home / "gems").exists() and list((home / "gems").iterdir()))
        told = self.gem(*install, source=self.source(f"ci:{key}"))
        self.assertIn("2 gems installed", told)
        self.assertEqual({path.name for path in (home / "gems").iterdir()}, {"shop-1.0.0", "needed-1.0.0"})
        self.assertIn("shop (1.0.0)", self.gem("list", "--remote", source=self.source(key)))
        told = self.gem("specification", "--remote", "shop", source=self.source(f"ci:{key}"))
        self.assertIn("name: shop\n", told)


if __name__ == "__main__":
    unittest.main()
