/**
 * The process that runs the expression of `--query`. An expression computes without yielding, so only the end of the process stops
 * it. It receives the expression, the texts of the records in batches, and `run`, and responds to each message.
 */
import { endWithParent } from "@payments/copy/memory-limit"
import { JsonQueryError, parseJsonQuery } from "./JsonQuery.ts"
import type { Request, Response } from "./RunJsonQuery.ts"

// The parent process then ends this one.
endWithParent().on("error", ({ message }) => void process.send?.({ defect: message } satisfies Response))

// Ctrl-C sends SIGINT to every process of the terminal. The parent process handles it and kills this process.
process.on("SIGINT", () => {})
process.on("disconnect", () => process.exit())

let query = parseJsonQuery("@")
const texts: Array<string> = []

const respond = (request: Request): Response => {
  if ("expression" in request) query = parseJsonQuery(request.expression)
  else if ("texts" in request) texts.push(...request.texts)
  else {
    try {
      return { result: query.run(texts) }
    } catch (error) {
      if (error instanceof JsonQueryError) return { problem: error.message }
      throw error
    }
  }
  return "received"
}

// Only the parent process sends.
process.on("message", (request) => process.send?.(respond(request as Request)))
