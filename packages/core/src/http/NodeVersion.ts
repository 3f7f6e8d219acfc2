/**
 * Throws if Node is too old. The Node entry imports this file first, because undici, which it loads next, would fail
 * with an error that does not name the version.
 */

/**
 * The oldest Node that the packages support: Effect 4 and undici 8 need 22.19, and the binding of numbered parameters in
 * node:sqlite needs 22.20. The packages' `engines` and the programs name the same version.
 */
export const oldestNode = { major: 22, minor: 20 } as const

// Other runtimes may have no version of Node.
const running = globalThis.process?.versions.node
const [major = 0, minor = 0] = (running ?? "").split(".").map(Number)
if (running !== undefined && (major < oldestNode.major || (major === oldestNode.major && minor < oldestNode.minor))) {
  throw new Error(
    `@payments/core/node needs Node ${oldestNode.major}.${oldestNode.minor} or later; this is Node ${running}. On other runtimes, use @payments/core/promise, which uses fetch.`
  )
}
