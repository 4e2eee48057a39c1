"""The compact index as Bundler 2.5 and newer speak it: opaque tags, Repr-Digest, parts of files that grow."""

import base64
import hashlib
import http.client
import json
import os
import re
import signal
import threading
import unittest

from index import Index, build_all, build_new


def md5(content):
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def sha256(content):
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


class NewerClient:
    """One file of the compact index as CompactIndexClient keeps it."""

    def __init__(self, index, path, content=None, tag=None):
        self.index, self.path = index, path
        self.content, self.tag = content, tag
        self.statuses = []

    def update(self):
        """Asks for what is new: a part behind what is here, all of it if that does not fit."""
        self.statuses = []
        if self.content and self._append():
            return
        answer = self._ask({"If-None-Match": self.tag} if self.tag else {})
        if answer.status != 304:
            assert answer.status == 200, answer.status
            assert self._digest(answer) == sha256(answer.content), "the digest is that of what came"
            self.content, self.tag = answer.content, answer.getheader("ETag")

    def _append(self):
        # One byte that is here already, so that there is always something to send.
        headers = {"Range": f"bytes={len(self.content) - 1}-"}
        answer = self._ask({**headers, **({"If-None-Match": self.tag} if self.tag else {})})
        if answer.status == 304:
            return True
        if answer.status == 206:
            whole = self.content + answer.content[1:]
            if self._digest(answer) == sha256(whole):
                self.content, self.tag = whole, answer.getheader("ETag")
                return True
        return False

    def _ask(self, headers):
        answer = self.index.get(self.path, headers)
        self.statuses.append(answer.status)
        return answer

    def _digest(self, answer):
        """The digest of the whole file, whatever part came."""
        return re.fullmatch(r"sha-256=:(.+):", answer.getheader("Repr-Digest")).group(1)


class Protocol(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.index = Index()

    @classmethod
    def tearDownClass(cls):
        cls.index.close()

    def push(self, name, version):
        self.index.push([build_new(self.index.folder, name, version)])

    def test_every_answer_says_what_it_is_a_part_of(self):
        self.push("said", "1.0.0")
        for path in ["/versions", "/info/said", "/names"]:
            whole = self.index.get(path)
            self.assertEqual(whole.getheader("ETag"), f'"{md5(whole.content)}"', path)
            self.assertEqual(whole.getheader("Accept-Ranges"), "bytes")
            for method, headers, status in [
                ("GET", {}, 200),
                ("HEAD", {}, 200),
                ("GET", {"Range": "bytes=3-"}, 206),
                ("GET", {"If-None-Match": whole.getheader("ETag")}, 304),
                ("GET", {"If-None-Match": f'W/"x", {whole.getheader("ETag")}'}, 304),
                # Old clients leave out the quotes.
                ("GET", {"If-None-Match": md5(whole.content)}, 304),
                ("GET", {"Range": f"bytes={len(whole.content)}-"}, 416),
            ]:
                answer = self.index.get(path, headers, method)
                self.assertEqual(answer.status, status, (path, method, headers))
                self.assertEqual(answer.getheader("ETag"), whole.getheader("ETag"))
                self.assertEqual(answer.getheader("Repr-Digest"), f"sha-256=:{sha256(whole.content)}:")
                self.assertEqual(answer.getheader("Digest"), f"sha-256={sha256(whole.content)}")
            part = self.index.get(path, {"Range": "bytes=3-5"})
            self.assertEqual(part.content, whole.content[3:6])
            self.assertEqual(part.getheader("Content-Range"), f"bytes 3-5/{len(whole.content)}")
            last = self.index.get(path, {"Range": "bytes=-4"})
            self.assertEqual((last.status, last.content), (206, whole.content[-4:]))
            beyond = self.index.get(path, {"Range": f"bytes={len(whole.content)}-"})
            self.assertEqual(beyond.getheader("Content-Range"), f"bytes */{len(whole.content)}")
            # A part of what the client no longer has the rest of would be of no use.
            other = self.index.get(path, {"Range": "bytes=3-", "If-Range": '"another"'})
            self.assertEqual((other.status, other.content), (200, whole.content))
            head = self.index.get(path, method="HEAD")
            self.assertEqual((head.content, head.getheader("Content-Length")), (b"", str(len(whole.content))))

    def test_a_newer_client_appends_what_is_new_and_starts_over_when_it_must(self):
        self.push("newer", "1.0.0")
        versions, info = NewerClient(self.index, "/versions"), NewerClient(self.index, "/info/newer")
        for file in [versions, info]:
            file.update()
            self.assertEqual(file.statuses, [200])
            file.update()
            self.assertEqual(file.statuses, [304])
        self.push("newer", "1.1.0")
        for file in [versions, info]:
            file.update()
            self.assertEqual(file.statuses, [206])
        line = versions.content.decode().splitlines()[-1]
        self.assertEqual(line, f"newer 1.1.0 {md5(info.content)}", "the digest of the info as it is now")

        # Without a tag it has to compare digests.
        NewerClient(self.index, "/versions", versions.content).update()
        self.index.gem("yank", "newer", "-v", "1.0.0", "--host", self.index.url)
        versions.update()
        self.assertEqual(versions.statuses, [206])
        self.assertTrue(versions.content.decode().splitlines()[-1].startswith("newer -1.0.0 "))
        info.update()
        self.assertIn(info.statuses, ([416, 200], [206, 200]))
        self.assertEqual([line.split(" ")[0] for line in info.content.decode().splitlines()], ["---", "1.1.0"])
        self.index.command("gems", "rebaseline")
        versions.update()
        self.assertIn(versions.statuses, ([416, 200], [206, 200]))
        self.assertEqual(versions.content, self.index.get("/versions").content)

    def test_a_client_whose_file_is_damaged_gets_a_whole_one(self):
        self.push("damaged", "1.0.0")
        info = NewerClient(self.index, "/info/damaged", b"---\nwhat somebody else has written\n")
        info.update()
        self.assertEqual(info.statuses, [206, 200])
        self.assertEqual(info.content, self.index.get("/info/damaged").content)

    def test_no_answer_mixes_two_states_while_gems_are_pushed(self):
        self.push("busy", "0.0.0")
        is_over, problems, seen = threading.Event(), [], []

        def read():
            connection = http.client.HTTPConnection(self.index.addresses["gems"], timeout=30)
            while not is_over.is_set():
                for path in ["/versions", "/info/busy"]:
                    answer = self.index.get(path, connection=connection)
                    if answer.getheader("ETag") != f'"{md5(answer.content)}"':
                        problems.append(f"{path}: ETag {answer.getheader('ETag')}")
                    if answer.getheader("Repr-Digest") != f"sha-256=:{sha256(answer.content)}:":
                        problems.append(f"{path}: Repr-Digest")
                seen.append(answer.content)
            connection.close()

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        try:
            versions = [("busy", f"0.0.{number}") for number in range(1, 9)]
            self.index.push(build_all(self.index.folder, versions))
        finally:
            is_over.set()
            for reader in readers:
                reader.join()
        self.assertEqual(problems, [])
        self.assertGreater(len(set(seen)), 1, "it was read while it changed")

    def test_a_file_is_what_its_checksum_says_in_parts_too(self):
        file = build_new(self.index.folder, "parts", "1.0.0")
        self.index.push([file])
        content, path = file.read_bytes(), "/gems/parts-1.0.0.gem"
        whole = self.index.get(path)
        self.assertEqual(whole.content, content)
        self.assertIn("max-age=31536000", whole.getheader("Cache-Control"))
        part = self.index.get(path, {"Range": "bytes=100-199"})
        self.assertEqual((part.status, part.content), (206, content[100:200]))
        self.assertEqual(part.getheader("Repr-Digest"), f"sha-256=:{sha256(content)}:")
        checksum = hashlib.sha256(content).hexdigest()
        self.assertIn(f"|checksum:{checksum}", self.index.get("/info/parts").content.decode())
        told = json.loads(self.index.command("gems", "info", "parts", "--json"))
        self.assertEqual(told["releases"][0]["sha256"], checksum)
        self.assertEqual(told["releases"][0]["bytes"], len(content))

    def test_a_push_that_was_answered_outlives_a_killed_service(self):
        files = build_all(self.index.folder, [("killed", f"0.0.{number}") for number in range(40)])
        told = []
        pushing = threading.Thread(target=lambda: told.append(self.index.push(files, check=False)))
        pushing.start()
        self.index.until(lambda: self.index.get("/info/killed").status == 200)
        killed = self.index.service()
        os.kill(killed, signal.SIGKILL)
        pushing.join()
        acknowledged = re.findall(r"Successfully registered gem: killed \(([\d.]+)\)", told[0])
        self.index.until(lambda: self.index.get("/info/killed").status == 200)
        there = re.findall(r"^([\d.]+) ", self.index.get("/info/killed").content.decode(), re.MULTILINE)
        self.assertLessEqual(set(acknowledged), set(there))
        self.assertGreaterEqual(len(acknowledged), 1)
        for version in there:
            self.assertEqual(self.index.get(f"/gems/killed-{version}.gem").status, 200)
        told = json.loads(self.index.command("gems", "verify", "--json"))
        self.assertEqual(told["problems"], [])
        self.index.until(lambda: self.index.service() != killed)

    def test_everything_that_was_written_is_what_follows_from_the_releases(self):
        self.push("verified", "1.0.0")
        told = json.loads(self.index.command("gems", "verify", "--json"))
        self.assertEqual((told["problems"], told["problems_total"]), ([], 0))
        self.assertGreater(told["releases"], 0)
        self.assertIsNone(told["files"], "not asked for")
        told = json.loads(self.index.command("gems", "verify", "--files", "--json"))
        self.assertEqual((told["files"]["files"], told["files"]["problems"]), (told["releases"], []))
        info = self.index.get("/info/verified").content.decode()
        checksum = re.search(r"checksum:(\w+)", info).group(1)
        file = self.index.folder / "data/gems/files" / checksum[:2] / f"{checksum}.gem"
        content = file.read_bytes()
        file.write_bytes(content[:-1] + b"x")
        with self.assertRaisesRegex(AssertionError, "exit 1"):
            self.index.command("gems", "verify", "--files")
        file.write_bytes(content)


if __name__ == "__main__":
    unittest.main()
