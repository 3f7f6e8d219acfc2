/**
 * Throws on a Node that is too old. The Node entry imports this file first: undici, which it loads next, would fail with an
 * error that does not name the version.
 */

/** The oldest Node that Effect 4 and undici 8 run on. The packages' `engines` and the programs name the same. */
export const oldestNode = { major: 22, minor: 19 } as const

// Other runtimes may have no such version.
const running = globalThis.process?.versions.node
const [major = 0, minor = 0] = (running ?? "").split(".").map(Number)
if (running !== undefined && (major < oldestNode.major || (major === oldestNode.major && minor < oldestNode.minor))) {
  throw new Error(
    `@payments/core/node needs Node ${oldestNode.major}.${oldestNode.minor} or later; this is Node ${running}. Elsewhere, use @payments/core/promise over fetch.`
  )
}
