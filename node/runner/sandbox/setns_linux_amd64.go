package sandbox

const sysSetns = 308
