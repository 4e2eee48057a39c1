"""Bundler and RubyGems, as Debian has them: what they ask of the index, and what they make of it."""

import shutil
import threading
import unittest

from index import ROOTS, Client, Index, build, build_all, build_new

QUOTED = [f'"{name}"' for name in ROOTS]


class WithIndex(unittest.TestCase):
    """Gems of Rails, Sidekiq and Devise, pushed by RubyGems' own command."""

    @classmethod
    def setUpClass(cls):
        cls.index = Index()
        try:
            cls.files = build(cls.index.folder / "built", *ROOTS)
            told = cls.index.push(cls.files)
        except BaseException:
            cls.index.close()
            raise
        assert told.count("Successfully registered gem") == len(cls.files) > 50, told

    @classmethod
    def tearDownClass(cls):
        cls.index.close()

    def client(self, gems, url=None):
        client = Client(self.index, gems, url)
        self.addCleanup(client.close)
        return client

    def new(self, name, version, dependencies=()):
        """A gem that is pushed now, by the program that people use."""
        file = build_new(self.index.folder, name, version, dependencies)
        told = self.index.gem("push", "--host", self.index.url, str(file))
        self.assertIn(f"Successfully registered gem: {name} ({version})", told)

    def assert_cache_is_served(self, client):
        """What Bundler has kept of the compact index is what is served now, byte for byte."""
        cached = client.cached()
        self.assertIn("versions", cached)
        for name, content in cached.items():
            path = "/versions" if name == "versions" else f"/info/{name}"
            self.assertEqual(content, self.index.get(path).content, path)


class Platforms(WithIndex):
    def test_a_gem_is_installed_whose_platform_this_rubygems_writes_otherwise(self):
        """In the specification it is x86_64-linux-gnu; the file that `gem build` makes has x86_64-linux."""
        file = build_new(self.index.folder, "native", "1.0.0", more='s.platform = "x86_64-linux-gnu"\n')
        self.assertEqual(file.name, "native-1.0.0-x86_64-linux.gem")
        self.index.push([file])
        self.assertIn("1.0.0-x86_64-linux-gnu ", self.index.get("/info/native").content.decode())
        # Versions of Bundler differ in the name that they request.
        for platform in ("x86_64-linux", "x86_64-linux-gnu"):
            self.assertEqual(self.index.get(f"/gems/native-1.0.0-{platform}.gem").status, 200, platform)
        client = self.client(['"native"'])
        client.bundle("install")
        self.assertEqual(client.installed(), {"native-1.0.0-x86_64-linux"})
        self.assertIn("native 1.0.0", client.ruby("require 'native'"))


class Commands(WithIndex):
    def test_what_there_is_not_is_explained(self):
        told = self.index.gem("owner", "rack", "--host", self.index.url, check=False)
        self.assertIn("This index has no owners of gems", told)

    def test_a_list_of_addresses_stays_a_list(self):
        file = build_new(self.index.folder, "mailed", "1.0.0", more='s.email = ["a@x.example"]\n')
        self.index.push([file])
        seen = self.index.gem(
            "specification", "--remote", "--clear-sources", "--source", self.index.url, "mailed", "email"
        )
        self.assertIn("- a@x.example", seen)


class Bundler(WithIndex):
    def test_a_lock_reads_versions_once_and_the_info_of_each_gem_once(self):
        client = self.client(QUOTED)
        asked = client.bundle("lock")
        locked = client.locked()
        self.assertGreater(len(locked), 50)
        # Nothing else: neither the dependency API nor the list of all gems.
        self.assertEqual(asked, {"versions 200": 1, "info 200": len(locked)})
        self.assertEqual(set(client.cached()), {"versions", *locked})
        self.assert_cache_is_served(client)
        self.assertEqual(client.bundle("lock", "--update"), {"versions 304": 1})

    def test_what_is_installed_is_what_was_pushed(self):
        client = self.client(QUOTED)
        asked = client.bundle("install")
        # Some come with Ruby in the same version.
        files = asked.pop("file 200")
        self.assertEqual(set(asked), {"versions 200", "info 200"})
        self.assertEqual(files, len(client.installed()))
        self.assertGreater(files, 45)
        self.assertLessEqual(client.installed(), {file.stem for file in self.files})
        told = client.ruby("%w[rails sidekiq devise nokogiri].each { |name| require name + '/who' }")
        self.assertEqual(len(told.split()), 4, told)
        self.assertIn(f"rails-{client.locked()['rails']}", told)

    def test_a_push_is_seen_at_the_next_update_and_only_what_is_new_travels(self):
        self.new("pushed", "1.0.0")
        client = self.client(['"pushed"', '"rack"'])
        client.bundle("install")
        self.new("pushed", "1.1.0")
        asked = client.bundle("update", "pushed")
        self.assertEqual(asked, {"versions 206": 1, "info 206": 1, "file 200": 1})
        self.assertEqual(client.locked()["pushed"], "1.1.0")
        self.assertEqual(client.ruby("require 'pushed'"), "pushed 1.1.0\n")
        self.assert_cache_is_served(client)

    def test_a_new_gem_that_is_needed_comes_with_its_own_info(self):
        self.new("needs", "1.0.0")
        client = self.client(['"needs"'])
        client.bundle("lock")
        self.new("needed", "0.1.0")
        self.new("needs", "2.0.0", ['"needed", "~> 0.1"', '"rack", ">= 2"'])
        asked = client.bundle("lock", "--update")
        self.assertEqual(asked, {"versions 206": 1, "info 206": 1, "info 200": 2})
        self.assertEqual(set(client.locked()), {"needs", "needed", "rack"})
        self.assert_cache_is_served(client)

    def test_what_was_yanked_is_not_chosen_any_more(self):
        self.new("yanked", "1.0.0")
        self.new("yanked", "1.1.0")
        client = self.client(['"yanked"'])
        client.bundle("lock")
        self.assertEqual(client.locked(), {"yanked": "1.1.0"})
        told = self.index.gem("yank", "yanked", "-v", "1.1.0", "--host", self.index.url)
        self.assertIn("Successfully deleted gem: yanked (1.1.0)", told)
        # Bundler never goes below what is locked, and newer ones (2.3.27) not even for a gem that is named.
        (client.folder / "Gemfile.lock").unlink()
        asked = client.bundle("lock")
        # The info is shorter than what the client has: it asks behind its end, and then for all of it.
        self.assertEqual(asked, {"versions 206": 1, "info 4xx": 1, "info 200": 1})
        self.assertEqual(client.locked(), {"yanked": "1.0.0"})
        self.assert_cache_is_served(client)
        self.assertEqual(self.index.get("/gems/yanked-1.1.0.gem").status, 404)
        self.assertEqual(self.index.get("/gems/yanked-1.0.0.gem").status, 200)

    def test_after_a_new_baseline_a_client_reads_all_of_versions_once(self):
        client = self.client(['"devise"'])
        client.bundle("lock")
        # It is longer than what the client has, and begins otherwise.
        self.index.push(build_all(self.index.folder, [(f"more-{number}", "1.0.0") for number in range(8)]))
        self.index.command("gems", "rebaseline")
        asked = client.bundle("lock", "--update")
        self.assertEqual(asked.pop("versions 200"), 1)
        self.assertLessEqual(set(asked), {"versions 206", "versions 4xx"}, "it tries with a part first")
        self.assertNotIn("info 200", asked, "no info has changed")
        self.assert_cache_is_served(client)
        self.assertEqual(client.bundle("lock", "--update"), {"versions 304": 1})

    def test_without_the_compact_index_clients_fall_back_by_themselves(self):
        compact = self.client(['"devise"'])
        compact.bundle("lock")
        switches = ["versions", "info", "names", "root"]
        try:
            for endpoint in switches:
                self.index.command("switch", "off", "--gems", endpoint)
            client = self.client(['"devise"'])
            asked = client.bundle("lock")
            self.assertEqual(client.locked(), compact.locked())
            self.assertEqual(client.cached(), {})
            self.assertGreater(asked.pop("dependencies 200"), 2)
            # Bundler 2.3.15 reads every specification to lock, 2.3.27 none.
            self.assertIn(asked.pop("gemspec 200", 0), (0, len(client.locked())))
            self.assertEqual(asked, {"versions 4xx": 1})

            switches.append("dependencies")
            self.index.command("switch", "off", "--gems", "dependencies")
            client = self.client(['"devise"'])
            asked = client.bundle("lock")
            self.assertEqual(client.locked(), compact.locked())
            self.assertEqual(asked.pop("specs 200"), 2)
            self.assertEqual(asked.pop("gemspec 200"), len(client.locked()))
            self.assertEqual(asked, {"versions 4xx": 1, "dependencies 4xx": 1})
        finally:
            for endpoint in switches:
                self.index.command("switch", "on", "--gems", endpoint)
        self.assertEqual(compact.bundle("lock", "--update"), {"versions 304": 1})

    def test_below_a_path_of_the_front_it_is_the_same(self):
        client = self.client(['"devise"'], self.index.mounted_url)
        asked = client.bundle("install")
        locked = client.locked()
        self.assertEqual((asked["versions 200"], asked["info 200"]), (1, len(locked)))
        self.assertEqual(asked["file 200"], len(client.installed()))
        self.assert_cache_is_served(client)

    def test_an_install_goes_on_while_weir_is_replaced(self):
        before = self.index.service()
        replacing = threading.Thread(target=lambda: self.index.command("upgrade"))
        clients = [self.client(QUOTED) for _ in range(2)]
        clients[0].bundle("lock")
        replacing.start()
        try:
            for client in clients:
                # With BUNDLE_RETRY=0, a request that fails ends it.
                client.bundle("install")
        finally:
            replacing.join()
        self.assertEqual(clients[0].installed(), clients[1].installed())
        # Metrics are the new process's from now on.
        self.index.until(lambda: self.index.service() != before)


class OverTls(unittest.TestCase):
    def test_keys_and_gems_travel_over_tls(self):
        index = Index(tls=True)
        self.addCleanup(index.close)
        told = index.gem("push", "--host", index.url, str(build_new(index.folder, "secret", "1.0.0")))
        self.assertIn("Successfully registered gem: secret", told)
        client = Client(index, ['"secret"'])
        self.assertEqual(client.bundle("install"), {"versions 200": 1, "info 200": 1, "file 200": 1})
        self.assertEqual(client.installed(), {"secret-1.0.0"})
        plain = Client(index, ['"secret"'], index.url.replace("https", "http"))
        plain.bundle("lock", check=False)
        self.assertEqual(plain.cached(), {}, "nothing is served in clear text")


class RubyGems(WithIndex):
    def counted(self, *arguments, **more):
        before = self.index.answers()
        told = self.index.gem(*arguments, **more)
        return told, dict(self.index.answers() - before)

    def test_an_install_reads_infos_and_not_the_list_of_all_gems(self):
        home = self.index.folder / "gem-home"
        source = ["--clear-sources", "--source", self.index.url]
        told, asked = self.counted("install", "devise", *source, "--install-dir", str(home), "--no-document")
        self.addCleanup(shutil.rmtree, home)
        installed = {path.name for path in (home / "gems").iterdir()}
        self.assertIn(f"{len(installed)} gems installed", told)
        self.assertGreater(len(installed), 20)
        self.assertEqual(asked["file 200"], len(installed))
        self.assertGreaterEqual(asked["info 200"], len(installed))
        self.assertNotIn("specs 200", asked)

    def test_lists_and_specifications_are_read_as_ever(self):
        source = ["--clear-sources", "--source", self.index.url]
        told, asked = self.counted("list", "--remote", *source)
        self.assertIn("\nrails (", told)
        self.assertEqual(asked, {"specs 200": 1})
        told, _ = self.counted("specification", "--remote", "rails", *source)
        self.assertIn("name: rails\n", told)
        told, asked = self.counted("fetch", "rack", *source)
        self.assertIn("Downloaded rack-", told)
        self.assertEqual(asked["file 200"], 1)
        fetched = next(self.index.folder.glob("rack-*.gem"))
        pushed = next(file for file in self.files if file.name == fetched.name)
        self.assertEqual(fetched.read_bytes(), pushed.read_bytes())

    def test_a_key_that_may_not_is_told_why(self):
        file = build_new(self.index.folder, "refused", "1.0.0")
        push = ["push", "--host", self.index.url, str(file)]
        create = ["gems", "key", "create", "x"]
        for key, why in [
            ("weir_nobody", "There is no such API key"),
            (self.index.command(*create, "--scope", "yank_rubygem").strip(), "it has no scope push_rubygem"),
            (self.index.command(*create, "--gem", "shop-*").strip(), "cannot perform the specified action on refused"),
        ]:
            told = self.index.gem(*push, key=key, check=False)
            self.assertIn(why, told)
            self.assertNotIn("Successfully", told)
        self.assertEqual(self.index.get("/info/refused").status, 404)
        self.index.gem(*push)
        told = self.index.gem(*push, check=False)
        self.assertIn("Repushing of gem versions is not allowed", told)


if __name__ == "__main__":
    unittest.main()
