"""PyPI `pusher`, the server library, against a live server."""

from pusher.errors import PusherBadAuth, PusherBadRequest

from app import RealtimeCase, backend, unique


class PusherTest(RealtimeCase):
    def test_one_event_for_many_channels(self):
        names = [unique("many") for _ in range(20)]
        client = self.connect()
        records = [self.subscribe(client, name, "news")[1][0] for name in names]
        self.backend.trigger(names, "news", {"to": "all"})
        for record in records:
            self.assertEqual(record.until(1), ['{"to": "all"}'])

    def test_who_sent_it_can_be_left_out(self):
        name = unique("public")
        sender, other = self.connect(), self.connect()
        _, (own,) = self.subscribe(sender, name, "news")
        _, (others,) = self.subscribe(other, name, "news")
        self.backend.trigger(name, "news", "1", sender.connection.socket_id)
        self.backend.trigger(name, "news", "2")
        self.assertEqual(others.until(2), ["1", "2"])
        self.assertEqual(own.until(1), ["2"])

    def test_a_batch_arrives_in_its_order(self):
        name = unique("public")
        _, (heard,) = self.subscribe(self.connect(), name, "news")
        self.backend.trigger_batch([{"channel": name, "name": "news", "data": str(n)} for n in range(10)])
        self.assertEqual(heard.until(10), [str(n) for n in range(10)])

    def test_channels_and_their_users_can_be_asked_for(self):
        name = unique("presence")
        for user in ("ada", "grace"):
            self.subscribe(self.connect(user=user), name)
        listed = self.backend.channels_info(name, ["user_count"])
        self.assertEqual(listed, {"channels": {name: {"user_count": 2}}})
        info = self.backend.channel_info(name, ["user_count", "subscription_count"])
        self.assertEqual(info, {"occupied": True, "user_count": 2, "subscription_count": 2})
        users = self.backend.users_info(name)["users"]
        self.assertEqual(sorted(user["id"] for user in users), ["ada", "grace"])

    def test_connections_of_a_user_are_ended(self):
        # This library leaves the app's id out of the path; pysher can't sign in, so nobody is hit.
        self.assertEqual(self.backend.terminate_user_connections(unique("user")), {})

    def test_a_wrong_signature_is_refused(self):
        with self.assertRaises(PusherBadAuth):
            backend(secret="wrong").trigger(unique("public"), "news", {})

    def test_a_batch_that_is_too_long_is_refused(self):
        event = {"channel": unique("public"), "name": "news", "data": ""}
        with self.assertRaisesRegex(PusherBadRequest, "10"):
            self.backend.trigger_batch([event] * 11)
