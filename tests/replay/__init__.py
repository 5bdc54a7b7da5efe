"""Process replay: proof that a change of the compiler does not change the code that it makes.

Every case (a kernel of the library, of the documentation, or a generated one) is compiled for every target.  Hashes of
the machine code and of Tile IR after each pass are compared with those that were accepted, in the text files here.
"""
