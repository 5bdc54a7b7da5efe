"""The interface of arrays, which values of graphs and arrays on meshes share: operators, methods, NumPy's protocols."""
