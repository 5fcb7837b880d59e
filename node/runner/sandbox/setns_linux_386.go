package sandbox

const sysSetns = 346
