// A node server that knows nothing of inherited sockets.
const http = require("node:http");

const server = http.createServer((request, response) => {
  response.setHeader("Connection", "close");
  response.end(String(process.pid));
});
server.listen(1, () => process.on("SIGTERM", () => server.close(() => process.exit(0))));
