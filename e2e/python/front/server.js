// An app on node's own server, with ws for WebSockets: `node server.js PORT|PATH|fd:NUMBER`.
const http = require("node:http");
const path = require("node:path");
const { WebSocketServer } = require(path.join(__dirname, "../../node/node_modules/ws"));

const server = http.createServer((request, response) => {
  if (request.url === "/echo") return request.pipe(response);
  if (request.url === "/parts") return parts(response);
  if (request.url === "/events") return events(response);
  if (request.url === "/pieces") return pieces(request.resume(), response);
  response.end(String(process.pid));
});

function parts(response) {
  for (const letter of "abc") response.write(letter.repeat(40_000));
  response.end();
}

function pieces(_request, response) {
  let left = 10;
  response.write("piece\n");
  const timer = setInterval(() => {
    if (--left > 0) return response.write("piece\n");
    clearInterval(timer);
    response.end();
  }, 200);
}

function events(response) {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  let number = 0;
  const timer = setInterval(() => response.write(`data: ${number++}\n\n`), 10);
  response.on("close", () => clearInterval(timer));
}

new WebSocketServer({ server, path: "/cable" }).on("connection", (socket) => {
  socket.on("message", (text) => socket.send(String(text).toUpperCase()));
});

function listening(where) {
  if (where.startsWith("fd:")) return { fd: Number(where.slice(3)) };
  return /^\d+$/.test(where) ? { port: Number(where), host: "127.0.0.1" } : { path: where };
}

server.listen(listening(process.argv[2]));
process.on("SIGTERM", () => server.close(() => process.exit(0)));
