/** Returns the processor time of this process in milliseconds. A busy machine changes it little. */
export const processorMs = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}
