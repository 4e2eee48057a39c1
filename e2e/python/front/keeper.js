// A client that keeps its connections while Weir replaces itself: `node keeper.js HOST:PORT`. It says "streaming" once
// a response has begun, and in the end in JSON what became of the requests behind it and of its WebSocket.
const http = require("node:http");
const path = require("node:path");
const WebSocket = require(path.join(__dirname, "../../node/node_modules/ws"));

const [host, port] = process.argv[2].split(":");
const WAITS = [0, 20, 450, 550, 3000];

function post(agent, target) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host, port, agent, method: "POST", path: target }, (response) => {
      let body = "";
      response.on("data", (piece) => (body += piece)).on("end", () => resolve([response.statusCode, body]));
    });
    request.on("error", reject).end("hello");
  });
}

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function keep(wait) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const streamed = await post(agent, "/pieces");
  if (wait) await sleep(wait);
  const behind = await post(agent, "/echo");
  agent.destroy();
  return [wait, streamed[0], streamed[1].length, ...behind];
}

function echo(socket, text) {
  return new Promise((resolve, reject) => {
    socket.once("message", (heard) => resolve(String(heard))).once("close", reject).send(text);
  });
}

async function main() {
  const socket = new WebSocket(`ws://${host}:${port}/cable`);
  await new Promise((resolve) => socket.once("open", resolve));
  const asked = WAITS.map(keep);
  console.log("streaming");
  const answers = await Promise.all(asked);
  const heard = await echo(socket, "still there");
  socket.close();
  console.log(JSON.stringify({ answers, heard }));
}

main().catch((error) => {
  console.log(JSON.stringify({ error: String(error) }));
  process.exit(1);
});
