// Loaded before a program (`node --require`). Appends the address of every connection, and every name that is looked
// up, to the file CONNECTIONS.
const { appendFileSync } = require("node:fs")
const { Socket } = require("node:net")
const dgram = require("node:dgram")
const dns = require("node:dns")

const note = (text) => appendFileSync(process.env.CONNECTIONS, `${text}\n`)

const record = (object, method, describe) => {
  const original = object[method]
  object[method] = function(...args) {
    note(describe(...args))
    return original.apply(this, args)
  }
}

// `connect` gets its arguments as they are, or as an array of normalized ones.
record(Socket.prototype, "connect", (first, second) => {
  const options = Array.isArray(first) ? first[0] : first
  if (typeof options === "number") return `${second}:${options}`
  return options.path ?? `${options.host}:${options.port}`
})
record(dgram.Socket.prototype, "send", () => "datagram")
for (const functions of [dns, dns.promises]) {
  for (const method of ["lookup", "resolve", "resolve4", "resolve6"]) record(functions, method, (name) => `lookup ${name}`)
}
