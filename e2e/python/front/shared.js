// An app on node's own server, on all inherited sockets, keeping its busy word.
const http = require("node:http");
const busy = require("../../../examples/busy-word/weir-busy");

const server = http.createServer((request, response) => {
  if (request.url === "/stuck") return;
  // Connections are shared out, not requests.
  response.setHeader("Connection", "close");
  response.end(String(process.pid));
});
busy.keep(server);
busy.listen(server);
process.on("SIGTERM", () => {
  server.close(() => process.exit(0));
});
