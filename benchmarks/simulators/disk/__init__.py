"""A rotating disk by finite elements: six inputs on a fine mesh, three on a coarse one."""
