// A node server as it is, on the sockets that Weir hands over (docs/front-sockets.md):
//
//   command = ["node", "--require", "/srv/shop/weir-preload.js", "server.js"]
//
// The first server that is to listen on a TCP port listens on them instead, and keeps its busy word.
const net = require("node:net");
const busy = require("./weir-busy");

const { listen } = net.Server.prototype;
let areTaken = process.env.LISTEN_PID !== String(process.pid);

function isPort(where) {
  return Number.isInteger(Number(where?.port ?? where)) && where?.fd === undefined;
}

net.Server.prototype.listen = function (...where) {
  if (areTaken || !isPort(where[0])) return listen.apply(this, where);
  areTaken = true;
  const listening = where.findLast((it) => typeof it === "function");
  if (listening) this.once("listening", listening);
  busy.keep(this);
  return busy.listen(this);
};
