"""Choose how a graph is computed: among rewritten graphs by the prices of their kernels, before a mesh cuts it."""
