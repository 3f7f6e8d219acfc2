/**
 * Says what is wrong with a Node that is too old, before anything else of the Node entry is loaded: what it stands on
 * (undici) would end there with an error that says nothing of the version.
 */

/** The oldest Node that Effect 4 and undici 8 run on. The packages' `engines` and the programs name the same. */
export const oldestNode = { major: 22, minor: 19 } as const

// Absent where something else than Node has the entry.
const running = globalThis.process?.versions.node
const [major = 0, minor = 0] = (running ?? "").split(".").map(Number)
if (running !== undefined && (major < oldestNode.major || (major === oldestNode.major && minor < oldestNode.minor))) {
  throw new Error(
    `@payments/core/node needs Node ${oldestNode.major}.${oldestNode.minor} or later; this is Node ${running}. Elsewhere, use @payments/core/promise over fetch.`
  )
}
