"""The exhaust diffuser of a steam turbine in OpenFOAM: fourteen inputs on a fine mesh, six on a coarse one."""
