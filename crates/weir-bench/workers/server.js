// The sample app of `weir-bench front` for Node: `node server.js PORT`, `node server.js PATH` (a unix socket), or with
// the sockets that LISTEN_FDS announces. It sleeps without letting others in, as a request that computes does.
'use strict'
const http = require('node:http')

const FIRST_DESCRIPTOR = 3
const nobodyWakes = new Int32Array(new SharedArrayBuffer(4))

function answer(request, response) {
  const microseconds = Number(/\bus=(\d+)/.exec(request.url)?.[1] ?? 0)
  if (microseconds > 0) Atomics.wait(nobodyWakes, 0, 0, microseconds / 1000)
  response.writeHead(200, { 'X-Worker': process.pid, 'Content-Type': 'text/plain', 'Content-Length': 2 })
  response.end('ok')
}

const { LISTEN_FDS, LISTEN_PID } = process.env
const place = process.argv[2]
if (place) {
  http.createServer(answer).listen(/^\d+$/.test(place) ? { port: Number(place), host: '127.0.0.1' } : place)
} else if (Number(LISTEN_FDS) > 0 && Number(LISTEN_PID ?? process.pid) === process.pid) {
  for (let index = 0; index < Number(LISTEN_FDS); index += 1) {
    http.createServer(answer).listen({ fd: FIRST_DESCRIPTOR + index })
  }
} else {
  console.error('usage: node server.js PORT|PATH, or sockets announced by LISTEN_FDS and LISTEN_PID')
  process.exit(64)
}
