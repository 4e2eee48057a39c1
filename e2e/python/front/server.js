// An app on node's own server: `node server.js PORT|PATH`.
const http = require("node:http");

const server = http.createServer((request, response) => {
  if (request.url === "/echo") return request.pipe(response);
  response.end(String(process.pid));
});
const where = process.argv[2];
server.listen(/^\d+$/.test(where) ? { port: Number(where), host: "127.0.0.1" } : { path: where });
process.on("SIGTERM", () => server.close(() => process.exit(0)));
