// dynalite throws the error of a request that its client breaks off. This has it go on.
process.on('uncaughtException', (error) => {
  if (error.code !== 'ECONNRESET') throw error
})
