// Prints the events of a channel: node watch.mjs [ws://HOST:PORT/app/KEY [CHANNEL]]
import readline from "node:readline";
import Pusher from "pusher-js";
import { installRecovery, onGap, onRecovered } from "weir-pusher-js-recovery";

const [address = "ws://127.0.0.1:8080/app/demo-key", name = "orders"] = process.argv.slice(2);
const { hostname, port, pathname } = new URL(address);

installRecovery(Pusher);
const pusher = new Pusher(pathname.split("/").pop(), {
  cluster: "", wsHost: hostname, wsPort: Number(port), forceTLS: false, enabledTransports: ["ws"],
});
const channel = pusher.subscribe(name);

onRecovered(channel, ({ events }) => console.log(`${events} missed events follow`));
onGap(channel, () => console.log("events are lost: this is where an application loads its state again"));
channel.bind_global((event, data) => {
  if (!event.startsWith("pusher:") && !event.startsWith("weir:")) console.log(event, JSON.stringify(data));
});

let wasSubscribed = false;
channel.bind("pusher:subscription_succeeded", () => {
  if (!wasSubscribed) console.log(`subscribed to ${name}; Enter cuts the connection or connects again`);
  wasSubscribed = true;
});
readline.createInterface({ input: process.stdin }).on("line", () => {
  if (pusher.connection.state === "connected") {
    pusher.disconnect();
    console.log("disconnected");
  } else {
    pusher.connect();
  }
});
